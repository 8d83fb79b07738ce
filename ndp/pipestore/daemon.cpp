#include "ndp/pipestore/daemon.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/http/certificate_metrics.h"
#include "ndp/http/http_drain.h"
#include "ndp/http/http_server.h"
#include "ndp/http/metrics.h"
#include "ndp/http/process_metrics.h"
#include "ndp/pipestore/hosted_store.h"
#include "ndp/pipestore/similarity_http.h"
#include "ndp/pipestore/upload_http.h"
#include "ndp/wire/heap_trim.h"
#include "ndp/wire/protocol.h"
#include "ndp/wire/role_loop.h"
#include "ndp/wire/security_reload.h"
#include "ndp/wire/tuner_addresses.h"

namespace ndtrain::ndp {
namespace {

// Uploads that wait to be labelled together each have a handler.
HttpLimits limits_for(const UploadConfig& uploads, size_t stores) {
  HttpLimits limits;
  limits.handlers = std::max(
      limits.handlers, static_cast<int64_t>(stores * uploads.queue) + 2 * limits::kHttpReserved);
  return limits;
}

std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

// What each store of the process is: the only one what the config says, one of several its own.
std::vector<PipeStoreConfig> stores_of(const PipeStoreConfig& config) {
  if (config.several.empty()) return {config};
  std::vector<PipeStoreConfig> all;
  for (const HostedPhotos& photos : config.several) {
    PipeStoreConfig& store = all.emplace_back(config);
    store.name = store_in_process(photos.name, config.name);
    if (!config.one_collection) store.collection = photos.name;
    store.photos = photos.directory;
    store.state = join(config.state, photos.name);
  }
  return all;
}

// Of a process with several stores, which are below it. Nobody else has it meanwhile.
std::optional<StateDirectory> shared_state(Fs& fs, const PipeStoreConfig& config) {
  if (config.several.empty()) return std::nullopt;
  Result<StateDirectory> state = StateDirectory::open(fs, config.state, kRoleOfSeveral);
  if (state.status().code() == Code::kUnsupported) {
    throw Error("--state ", config.state, ": ", state.status().message(),
                "; each of several stores has a directory below it: take a new one");
  }
  return std::move(state).or_throw();
}

}  // namespace

struct PipeStoreDaemon::Parts {
  using Event = LinkEvent<wire::ToStore>;

  Parts(const PipeStoreConfig& config, Devices& devices, Fs& f, Clock& clock)
      : fs(f),
        state(shared_state(f, config)),
        directory(config.state),
        one_collection(config.several.empty() || config.one_collection),
        shows_photos(config.several.empty() || !config.one_collection),
        guard(f, clock, config.state, one_collection ? config.collection : "",
              config.http_security),
        upload_host(config.http_security.tls() ? host_of(config.http) : ""),
        link_certificates(link_files(config), config.security),
        http_certificates(http_files(config), config.http_security),
        drain(config.drain) {
    if (config.sandbox != SandboxMode::kOff) {
      DecoderPool::Config pool = config.pool;
      pool.workers = static_cast<size_t>(shared_threads().threads());
      decoder = std::make_unique<UploadDecoder>(config.sandbox, pool);
      model_check = std::make_unique<ModelSandbox>(config.models);
    }
    const std::vector<PipeStoreConfig> all = stores_of(config);
    for (size_t i = 0; i < all.size(); ++i) {
      labels.push_back(labels_of(all[i]));
      stores.push_back(std::make_unique<HostedStore>(
          all[i], HostedStore::Shared{.devices = devices,
                                      .fs = fs,
                                      .clock = clock,
                                      .models = models,
                                      .extractors = extractors,
                                      .upload_priority = upload_priority,
                                      .decoder = decoder.get(),
                                      .check = model_check.get(),
                                      .dial = dial(config, i, all.size()),
                                      .last_retry = last_retry_of(tuner_addresses(config.tuner)),
                                      .wake = [this] { events.wake(); },
                                      .http = [this] { return http_for_people(); },
                                      .tokens = tokens_for(all[i].collection),
                                      .forget = [this](const auto& ids) { return forget(ids); }}));
    }
    show();
    if (config.http.empty()) return;
    http = HttpServer::listen(config.http, routes(), limits::kHttpBody, guard.protection(),
                              limits_for(config.uploads, shows_photos ? stores.size() : 0))
               .or_throw();
  }
  ~Parts() {
    http.reset();
    stores.clear();
  }

  // Links of all stores are in one queue: of `n` stores, number `i` has those that are i modulo n.
  // Each dial of a store takes the next address.
  std::function<std::unique_ptr<LinkClient>(LinkId)> dial(const PipeStoreConfig& config, size_t i,
                                                          size_t n) {
    return [this, to = tuner_addresses(config.tuner), i, n](LinkId id) {
      return LinkClient::dial(to[(id - 1) % to.size()], link_certificates.now(), id * n + i,
                              events);
    };
  }
  void handle(Event event) {
    HostedStore& store = *stores[event.link % stores.size()];
    event.link /= stores.size();
    store.handle(std::move(event));
  }

  SecurityReload<LinkSecurity>::Setting link_files(const PipeStoreConfig& config) {
    const auto renew = [this](const LinkSecurity& s) {
      for (const auto& store : stores) store->end_if_revoked(s);
      return Status();
    };
    return {"the link to the Tuner", config.read_security, renew};
  }
  SecurityReload<HttpSecurity>::Setting http_files(const PipeStoreConfig& config) {
    std::function<HttpSecurity()> read;
    if (config.read_http_security) {
      read = [this, from = config.read_http_security] { return from(link_certificates.now()); };
    }
    return {"HTTP", read, [this](const HttpSecurity& s) { return guard.renew(s); }};
  }

  // As wire::Space says it; "": nowhere.
  std::string http_for_people() const {
    if (!http || !shows_photos || http->address().starts_with("unix:")) return "";
    const std::string address = http->address();
    const std::string port = address.substr(address.rfind(':')), host = host_of(address);
    const bool any = host == "0.0.0.0" || host == "[::]";
    // A certificate is for a name, so that is what people are told.
    const std::string told = any ? port : (upload_host.empty() ? host : upload_host) + port;
    return (upload_host.empty() ? "" : "https://") + told;
  }

  Status forget(const std::set<Digest>& deleted) {
    std::map<std::string, Digest> paths;
    for (const Digest& id : deleted) paths.emplace("/photos/" + to_hex(id), id);
    return guard.audit().forget(paths);
  }

  // The Tuner's tickets for a store are of its collection, where there are several.
  std::function<void(const std::string&, const std::string&)> tokens_for(
      const std::string& collection) {
    return [this, of = one_collection ? std::string() : collection](const std::string& json,
                                                                    const std::string& key) {
      guard.access().set_ticket_key(key, of);
      keep_tokens(json);
    };
  }
  // What the Tuner says of tokens: Access sees the file.
  void keep_tokens(const std::string& json) {
    if (json == guard.access().text()) return;
    const Result<std::vector<Token>> tokens = parse_tokens(json);
    Status s =
        tokens.ok() ? guard.audit().add({.who = "the Tuner", .what = "tokens"}) : tokens.status();
    if (s.ok()) s = publish(fs, join(directory, std::string(kTokensFile)), json);
    if (!s.ok()) log::error("the Tuner's tokens are not in force here: {}", s.message());
  }

  std::vector<HttpServer::Route> routes() {
    std::vector<HttpServer::Route> all = {
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
    if (shows_photos) {
      std::ranges::move(photo_routes(), std::back_inserter(all));
    } else {
      log::info(
          "HTTP has health and metrics, not the photos: the stores here are of one collection");
    }
    all.push_back(guard.audit_route());
    return all;
  }

  std::vector<HttpServer::Route> photo_routes() {
    std::vector<Uploads*> uploads;
    std::vector<SimilarPhotos*> similar;
    for (const auto& store : stores) {
      uploads.push_back(&store->uploads());
      similar.push_back(&store->similar());
    }
    std::vector<HttpServer::Route> all = upload_routes(std::move(uploads));
    std::ranges::move(similarity_routes(similar), std::back_inserter(all));
    return all;
  }

  // By which the metrics of several are told apart.
  MetricLabels labels_of(const PipeStoreConfig& store) const {
    if (!state) return {};
    return one_collection ? MetricLabels{{"store", store.name}}
                          : MetricLabels{{"collection", store.collection}};
  }

  // What HTTP's threads may see.
  void show() {
    MetricsText m;
    for (size_t i = 0; i < stores.size(); ++i) stores[i]->add_metrics(m, labels[i]);
    const bool stale = !link_certificates.trouble().empty();
    add_certificate(m, "authority", link_certificates.now().authority, stale);
    add_certificate(m, "link", link_certificates.now().certificate, stale);
    add_certificate(m, "http", http_certificates.now().certificate,
                    !http_certificates.trouble().empty());
    ready = std::ranges::all_of(stores, [](const auto& store) { return store->connected(); });
    const std::lock_guard lock(mutex);
    metrics = m.text();
  }

  std::string upload_metrics() const {
    MetricsText m;
    for (size_t i = 0; i < stores.size(); ++i) stores[i]->add_upload_metrics(m, labels[i]);
    m.gauge("ndtrain_upload_extractors",
            "Extractors in memory that label uploads; tasks and collections share them", {},
            static_cast<double>(extractors.held()));
    m.gauge("ndtrain_extractor_files",
            "Extractors' files in memory, each once for all uploads and jobs", {},
            static_cast<double>(models.held()));
    m.counter("ndtrain_extractor_loads_total", "Extractors' files that were loaded", {},
              static_cast<double>(models.made()));
    if (decoder) add_sandbox(m);
    add_process(m);
    return m.text();
  }

  void add_sandbox(MetricsText& m) const {
    model_check->add_metrics(m);
    const DecoderPool::Counts counts = decoder->pool().counts();
    m.counter("ndtrain_sandbox_photos_total", "Photos that were decoded in the sandbox, or refused",
              {}, static_cast<double>(counts.photos));
    m.gauge("ndtrain_sandbox_workers", "Processes of the sandbox", {},
            static_cast<double>(counts.alive));
    for (const WorkerEnd end : kWorkerEnds) {
      m.counter("ndtrain_sandbox_stopped_total", "Processes of the sandbox that a photo ended",
                {{"why", std::string(name_of(end))}},
                static_cast<double>(counts.ended[static_cast<size_t>(end)]));
    }
  }

  void turn() {
    auto next = std::chrono::nanoseconds::max();
    for (const auto& store : stores) next = std::min(next, store->next());
    const auto wait = std::clamp<std::chrono::nanoseconds>(
        next - system_clock().monotonic(), std::chrono::milliseconds(1), kLongestWait);
    if (auto event = events.take(wait)) {
      handle(std::move(*event));
      for (int i = 1; i < kEventsOfTurn && (event = events.take(std::chrono::nanoseconds(0)));
           ++i) {
        handle(std::move(*event));
      }
    }
    for (const auto& store : stores) store->tick();
    const auto now = system_clock().monotonic();
    link_certificates.look(now);
    http_certificates.look(now);
    (void)heap.look(now);
    if (http && now - shown > kLongestWait) {
      shown = now;
      show();
    }
  }

  Fs& fs;
  const std::optional<StateDirectory> state;  // of several stores
  const std::string directory;
  const bool one_collection;  // all photos are in
  const bool shows_photos;    // over HTTP
  HttpGuard guard;
  const std::string upload_host;  // that the certificate is for; "": in the clear
  SecurityReload<LinkSecurity> link_certificates;
  SecurityReload<HttpSecurity> http_certificates;
  const std::chrono::milliseconds drain;
  HeapTrim heap;
  LinkEvents<wire::ToStore> events;
  UploadPriority upload_priority;
  std::unique_ptr<UploadDecoder> decoder;     // null: no sandbox
  std::unique_ptr<ModelSandbox> model_check;  // the same
  SharedModels models;
  SharedExtractors extractors;
  std::vector<MetricLabels> labels;  // of each store
  std::vector<std::unique_ptr<HostedStore>> stores;
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
  drain_requests(parts_->http.get(), parts_->drain, [this] { parts_->turn(); });
  for (const auto& store : parts_->stores) store->leave("it was told to stop");
}

}  // namespace ndtrain::ndp
