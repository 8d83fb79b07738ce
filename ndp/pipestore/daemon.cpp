#include "ndp/pipestore/daemon.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <thread>

#include "ndp/engine/numerics.h"
#include "ndp/http/http_server.h"
#include "ndp/http/metrics.h"
#include "ndp/pipestore/photo_row_maker.h"
#include "ndp/pipestore/service.h"

namespace ndtrain {
namespace {

constexpr std::chrono::milliseconds kLongestWait{200};  // so that a signal is seen soon

uint64_t random_bits() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

wire::Hello hello_of(const PipeStoreConfig& config, Devices& devices, uint64_t incarnation) {
  wire::Hello hello;
  hello.set_store(config.name);
  hello.set_incarnation(incarnation);
  hello.set_version(config.version);
  hello.set_numerics(feature_numerics(devices.get(false)));
  return hello;
}

}  // namespace

struct PipeStoreDaemon::Parts {
  Parts(const PipeStoreConfig& config, Devices& devices, Fs& fs, Clock& clock)
      : state(StateDirectory::open(fs, config.state, "pipestore").or_throw()) {
    const Result<FileInfo> photos = fs.info(config.photos);
    if (!photos.ok() || !photos->is_directory) {
      throw Error("there is no directory of photos at ", config.photos);
    }
    maker = std::make_unique<PhotoRowMaker>(PhotoRowConfig{.photos = config.photos,
                                                           .labels = config.labels,
                                                           .cache = state.file("cache"),
                                                           .cache_bytes = config.cache_bytes,
                                                           .batch = config.batch,
                                                           .shard = config.shard,
                                                           .shards = config.shards},
                                            devices, fs, clock);
    lanes = std::make_unique<ThreadLanes>(PipeStoreService::kLanes, [this] { events.wake(); });
    const uint64_t drawn = random_bits();
    const auto dial = [this, config](LinkId id) {
      return LinkClient::dial(config.tuner, config.security, id, events);
    };
    service = std::make_unique<PipeStoreService>(
        PipeStoreService::Setting{fs, clock, state, *lanes, *maker, dial},
        hello_of(config, devices, drawn), drawn);
    show();
    if (config.http.empty()) return;
    http = HttpServer::listen(config.http, routes(), 1 << 16).or_throw();
  }
  ~Parts() {
    http.reset();
    lanes.reset();  // its tasks use the service
    service.reset();
  }

  std::vector<HttpServer::Route> routes() {
    return {
        {"GET", "/healthz",
         [](const HttpRequest&) { return HttpResponse{.body = "{\"status\":\"ok\"}\n"}; }},
        {"GET", "/readyz",
         [this](const HttpRequest&) {
           return ready ? HttpResponse{.body = "{\"status\":\"ready\"}\n"}
                        : http_error(503, "no session with the Tuner");
         }},
        {"GET", "/metrics",
         [this](const HttpRequest&) {
           const std::lock_guard lock(mutex);
           return HttpResponse{.body = metrics, .type = kMetricsType};
         }},
    };
  }

  // What HTTP's threads may see.
  void show() {
    MetricsText m;
    m.gauge("ndtrain_photos", "Photos that can be read", {}, static_cast<double>(maker->photos()));
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

  StateDirectory state;
  std::unique_ptr<PhotoRowMaker> maker;
  LinkEvents<wire::ToStore> events;
  std::unique_ptr<ThreadLanes> lanes;
  std::unique_ptr<PipeStoreService> service;
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

void PipeStoreDaemon::run(const std::function<bool()>& stop) {
  while (!stop()) parts_->turn();
  parts_->service->leave("it was told to stop");
}

}  // namespace ndtrain
