#include "ndp/pipestore/daemon.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/engine/numerics.h"
#include "ndp/http/http_server.h"
#include "ndp/http/metrics.h"
#include "ndp/labels/label_db.h"
#include "ndp/pipestore/folder_follower.h"
#include "ndp/pipestore/photo_row_producer.h"
#include "ndp/pipestore/service.h"
#include "ndp/pipestore/upload_http.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/role_loop.h"

namespace ndtrain::ndp {
namespace {

wire::Hello hello_of(const PipeStoreConfig& config, Devices& devices, uint64_t incarnation) {
  wire::Hello hello;
  hello.set_store(config.name);
  hello.set_takes_tokens(true);
  hello.set_takes_tickets(true);
  hello.set_incarnation(incarnation);
  hello.set_version(config.version);
  hello.set_numerics(feature_numerics(devices.get(false)));
  return hello;
}

// Uploads that wait to be labelled together each have a handler.
HttpLimits limits_for(const UploadConfig& uploads) {
  HttpLimits limits;
  limits.handlers =
      std::max(limits.handlers, static_cast<int64_t>(uploads.queue) + 2 * limits::kHttpReserved);
  return limits;
}

constexpr std::chrono::seconds kRescan{600}, kNetworkRescan{60};

FolderFollower::Options folder_options(const PipeStoreConfig& config) {
  const std::string network = network_file_system(config.photos);
  FolderFollower::Options options;
  options.rescan = network.empty() ? kRescan : kNetworkRescan;
  if (config.rescan) {
    options.rescan = std::chrono::duration_cast<FolderFollower::Time>(
        std::chrono::duration<double>(std::min(*config.rescan, 1e9)));
  }
  if (!network.empty()) {
    log::info(
        "{} is on {}: of photos that other machines put there nobody here hears, they are seen "
        "when "
        "all is looked at{}",
        config.photos, network,
        options.rescan.count() == 0
            ? ", which --rescan 0 leaves to jobs"
            : fmt::format(", every {:g} s", std::chrono::duration<double>(options.rescan).count()));
  }
  return options;
}

std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

}  // namespace

struct PipeStoreDaemon::Parts {
  Parts(const PipeStoreConfig& config, Devices& d, Fs& f, Clock& clock)
      : fs(f),
        devices(d),
        state(StateDirectory::open(f, config.state, "pipestore").or_throw()),
        trash(f, state.file("trash.bin")),
        guard(f, clock, config.state, std::string(kDefaultCollection), config.http_security),
        upload_host(config.http_security.tls() ? host_of(config.http) : "") {
    const Result<FileInfo> photos = fs.info(config.photos);
    if (!photos.ok() || !photos->is_directory) {
      throw Error("there is no directory of photos at ", config.photos);
    }
    check_apart(config.state, config.photos);
    log = UploadLog::open(fs, state.file("uploads")).or_throw();
    const auto forget = [this](auto deleted) { return uploads->forget(deleted); };
    producer =
        std::make_unique<PhotoRowProducer>(PhotoRowConfig{.photos = config.photos,
                                                          .state = config.state,
                                                          .labels = config.labels,
                                                          .cache = state.file("cache"),
                                                          .cache_bytes = config.cache_bytes,
                                                          .compress_crops = config.compress_crops,
                                                          .batch = config.batch,
                                                          .shard = config.shard,
                                                          .shards = config.shards,
                                                          .uploads = log.get(),
                                                          .trash = &trash,
                                                          .forget = forget,
                                                          .found = found_by(config),
                                                          .upload_priority = &upload_priority},
                                           devices, fs, clock);
    const UploadConfig upload = upload_of(config);
    uploads = std::make_unique<Uploads>(upload, fs, clock, *log, producer->cache(),
                                        open_catalogue(fs, state.file("cache"), config.photos),
                                        upload_priority, [this] { events.wake(); });
    lanes = std::make_unique<ThreadLanes>(PipeStoreService::kLanes, [this] { events.wake(); });
    const uint64_t drawn = random_bits();
    const auto dial = [this, config](LinkId id) {
      return LinkClient::dial(config.tuner, config.security, id, events);
    };
    service = std::make_unique<PipeStoreService>(
        PipeStoreService::Setting{fs, clock, state, *lanes, *producer, dial, log.get(),
                                  [this, config] { return space(config.state); },
                                  [this] { put_in_force(); }, apply_delta, forget,
                                  [this](const std::string& json, const std::string& key) {
                                    guard.access().set_ticket_key(key);
                                    keep_tokens(json);
                                  },
                                  &trash, [this] { uploads->restored(); }},
        hello_of(config, devices, drawn), drawn);
    batch = config.batch;
    if (service->in_force().version > 0) put_in_force();
    if (config.watch) follow(config, clock);
    show();
    if (config.http.empty()) return;
    http = HttpServer::listen(config.http, routes(), limits::kHttpBody, guard.protection(),
                              limits_for(upload))
               .or_throw();
  }
  UploadConfig upload_of(const PipeStoreConfig& config) {
    UploadConfig upload = config.uploads;
    upload.photos = config.photos;
    upload.state = config.state;
    upload.compress_crops = config.compress_crops;
    upload.trash = &trash;
    upload.forget = [this](const std::set<Digest>& deleted) {
      std::map<std::string, Digest> paths;
      for (const Digest& id : deleted) paths.emplace("/photos/" + to_hex(id), id);
      return guard.audit().forget(paths);
    };
    upload.online.batch = static_cast<size_t>(config.batch);
    return upload;
  }
  std::function<Status(std::span<const FoundPhoto>)> found_by(const PipeStoreConfig& config) {
    if (!config.watch) return {};
    return [this](std::span<const FoundPhoto> found) { return uploads->take_in(found); };
  }
  void follow(const PipeStoreConfig& config, Clock& clock) {
    follower = std::make_unique<FolderFollower>(
        FolderFollower::Ports{.clock = clock,
                              .look =
                                  [this, &clock](const DirectoryChanges& changes) {
                                    return producer->inventory().follow(
                                        changes, clock, [this] { return ending.load(); });
                                  },
                              .count = [this] { producer->inventory().count(); }},
        folder_options(config));
    folder =
        std::make_unique<FolderThread>(watch_directory(config.photos), *follower, clock, ending);
  }
  ~Parts() {
    http.reset();
    folder.reset();
    lanes.reset();  // its tasks use the service
    uploads.reset();
    service.reset();
  }

  // Where uploads go.
  wire::Space space(const std::string& directory) const {
    wire::Space s;
    if (http && !http->address().starts_with("unix:")) {
      const std::string address = http->address();
      const size_t port = address.rfind(':');
      const std::string host = host_of(address);
      const bool any = host == "0.0.0.0" || host == "[::]";
      // A certificate is for a name, so that is what people are told.
      s.set_http(any ? address.substr(port)
                     : (upload_host.empty() ? host : upload_host) + address.substr(port));
      if (!upload_host.empty()) s.set_http("https://" + s.http());
    }
    const Result<Space> volume = fs.space(directory);
    const int64_t spare = volume.ok() ? volume->free - volume->total / 20 : 0;
    s.set_free(static_cast<uint64_t>(std::max<int64_t>(0, spare)));
    s.set_photos(producer->photos());
    return s;
  }

  // What the Tuner says of tokens: Access sees the file.
  void keep_tokens(const std::string& json) {
    if (json == guard.access().text()) return;
    const Result<std::vector<Token>> tokens = parse_tokens(json);
    Status s =
        tokens.ok() ? guard.audit().add({.who = "the Tuner", .what = "tokens"}) : tokens.status();
    if (s.ok()) s = publish(fs, state.file(std::string(kTokensFile)), json);
    if (!s.ok()) log::error("the Tuner's tokens are not in force here: {}", s.message());
  }

  // Its files are here.
  void put_in_force() {
    const VersionInForce& v = service->in_force();
    if (!v.extractor) return uploads->put_in_force([] { return nullptr; });
    uploads->put_in_force([this, v, extractor = service->model_path(*v.extractor),
                           head = v.head ? service->model_path(*v.head) : ""] {
      auto model = std::make_shared<OnlineModel>();
      model->version = v.version;
      model->extractor = bytes_of(*v.extractor);
      if (v.head) model->head = bytes_of(*v.head);
      model->network = std::make_unique<Network>(
          load_model(fs, extractor),
          v.head ? std::make_unique<ModelFile>(load_model(fs, head)) : nullptr, /*labels=*/true,
          devices.get(false), batch);
      return model;
    });
  }

  std::vector<HttpServer::Route> routes() {
    std::vector<HttpServer::Route> all = upload_routes(*uploads);
    std::vector<HttpServer::Route> own = {
        {"GET", "/healthz", Role::kAnyone,
         [](const HttpRequest&) { return HttpResponse{.body = "{\"status\":\"ok\"}\n"}; }},
        {"GET", "/readyz", Role::kViewer,
         [this](const HttpRequest&) {
           return ready ? HttpResponse{.body = "{\"status\":\"ready\"}\n"}
                        : http_error(503, "no session with the Tuner");
         }},
        {"GET", "/metrics", Role::kViewer,
         [this](const HttpRequest&) {
           const std::string uploaded = upload_metrics();
           const std::lock_guard lock(mutex);
           return HttpResponse{.body = metrics + uploaded, .type = kMetricsType};
         }},
    };
    all.insert(all.end(), own.begin(), own.end());
    all.push_back(guard.audit_route());
    return all;
  }

  // What HTTP's threads may see.
  void show() {
    MetricsText m;
    m.gauge("ndtrain_photos", "Photos that can be read", {},
            static_cast<double>(producer->photos()));
    m.gauge("ndtrain_session_up", "Whether there is a session with the Tuner", {},
            service->connected());
    m.gauge("ndtrain_jobs", "Jobs in progress", {}, static_cast<double>(service->jobs()));
    m.gauge("ndtrain_version_in_force", "Version in force", {},
            static_cast<double>(service->in_force().version));
    m.counter("ndtrain_rows_total", "Rows made for the Tuner", {},
              static_cast<double>(service->rows_made()));
    for (const auto& [name, seconds] : service->stages()) {
      m.counter("ndtrain_stage_seconds_total", "Time spent in the engine's steps",
                {{"stage", name}}, seconds);
    }
    ready = service->connected();
    const std::lock_guard lock(mutex);
    metrics = m.text();
  }

  std::string upload_metrics() const {
    MetricsText m;
    const Uploads::Counts c = uploads->counts();
    const auto gauge = [&](const char* name, const char* help, auto value) {
      m.gauge(name, help, {}, static_cast<double>(value));
    };
    const auto counter = [&](const char* name, const char* help, auto value) {
      m.counter(name, help, {}, static_cast<double>(value));
    };
    gauge("ndtrain_upload_version", "Version that labels uploads", uploads->version());
    gauge("ndtrain_upload_photos", "Photos that were uploaded here, or found in the directory",
          c.log.photos);
    counter("ndtrain_photos_found_total", "New photos that were found in the directory", c.found);
    counter("ndtrain_photos_waited_labelled_total",
            "Photos labelled after they waited: found ones, and uploads without a version",
            c.waited);
    gauge("ndtrain_upload_unlabelled", "Those that no version has labelled", c.log.unlabelled);
    gauge("ndtrain_upload_outbox", "Lines that the Tuner has not acknowledged",
          c.log.unacknowledged);
    gauge("ndtrain_uploads_in_progress", "Uploads that are not answered yet", c.in_progress);
    counter("ndtrain_uploads_refused_total", "Uploads answered with 429", c.refused);
    counter("ndtrain_uploads_unreadable_total", "Uploads that are no photo", c.unreadable);
    counter("ndtrain_uploads_labelled_total", "Photos labelled as they came", c.online.photos);
    counter("ndtrain_upload_batches_total", "Batches in which they were", c.online.batches);
    counter("ndtrain_uploads_not_cached_total", "Whose crop and feature were not kept",
            c.not_cached);
    return m.text();
  }

  void turn() {
    const auto wait = std::clamp<std::chrono::nanoseconds>(
        service->next() - system_clock().monotonic(), std::chrono::milliseconds(1), kLongestWait);
    if (auto event = events.take(wait)) {
      service->handle(std::move(*event));
      while ((event = events.take(std::chrono::nanoseconds(0)))) service->handle(std::move(*event));
    }
    for (const Continuation& after : lanes->take_finished()) after();
    service->tick();
    const auto now = system_clock().monotonic();
    if (http && now - shown > kLongestWait) {
      shown = now;
      show();
    }
  }

  Fs& fs;
  Devices& devices;
  StateDirectory state;
  StoreTrash trash;
  HttpGuard guard;
  const std::string upload_host;  // that the certificate is for; "": in the clear
  LinkEvents<wire::ToStore> events;
  std::unique_ptr<UploadLog> log;
  UploadPriority upload_priority;
  std::unique_ptr<PhotoRowProducer> producer;
  std::unique_ptr<Uploads> uploads;
  int64_t batch = 0;
  std::unique_ptr<ThreadLanes> lanes;
  std::unique_ptr<PipeStoreService> service;
  std::atomic<bool> ending = false;
  std::unique_ptr<FolderFollower> follower;
  std::unique_ptr<FolderThread> folder;
  std::unique_ptr<HttpServer> http;
  std::atomic<bool> ready = false;
  std::mutex mutex;  // of metrics
  std::string metrics;
  std::chrono::nanoseconds shown{0};
};

PipeStoreDaemon::PipeStoreDaemon(const PipeStoreConfig& config, Devices& devices, Fs& fs,
                                 Clock& clock)
    : parts_(std::make_unique<Parts>(config, devices, fs, clock)) {}
PipeStoreDaemon::~PipeStoreDaemon() = default;

std::string PipeStoreDaemon::http_address() const {
  return parts_->http ? parts_->http->address() : "";
}

std::vector<std::string> PipeStoreDaemon::http_needs() const {
  return parts_->http ? parts_->http->needs() : std::vector<std::string>();
}

void PipeStoreDaemon::run(const std::function<bool()>& stop) {
  while (!stop()) parts_->turn();
  parts_->service->leave("it was told to stop");
}

}  // namespace ndtrain::ndp
