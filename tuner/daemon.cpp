#include "tuner/daemon.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <thread>
#include <utility>

#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/core/text.h"
#include "ndp/http/certificate_metrics.h"
#include "ndp/http/http_drain.h"
#include "ndp/http/login_routes.h"
#include "ndp/http/process_metrics.h"
#include "ndp/http/tickets.h"
#include "ndp/labels/label_db.h"
#include "ndp/store/mapped_memory.h"
#include "ndp/wire/heap_trim.h"
#include "ndp/wire/role_loop.h"
#include "ndp/wire/security_reload.h"
#include "tuner/group/group_net.h"
#include "tuner/group/tuner_members.h"
#include "tuner/http/http_api.h"
#include "tuner/http/http_dashboard.h"
#include "tuner/http/http_deletions.h"
#include "tuner/http/http_job_files.h"
#include "tuner/http/http_labels.h"
#include "tuner/http/http_photos.h"
#include "tuner/http/http_similarity.h"
#include "tuner/http/http_tasks.h"
#include "tuner/http/http_trash.h"
#include "tuner/http/http_uploads.h"
#include "tuner/models/whole_model.h"
#include "tuner/state_scrub.h"
#include "tuner/watch/watcher.h"
#include "tuner/work/default_job_factory.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr size_t kWatchLane = TunerService::kLanes;
constexpr std::chrono::milliseconds kTelling{500};  // between looks at what followers hear of

std::string ranks_listen(const TunerConfig& config) {
  if (!config.ranks_listen.empty()) return config.ranks_listen;
  if (is_local(config.listen)) return "127.0.0.1:0";
  const size_t colon = config.listen.rfind(':');
  const int port = std::atoi(config.listen.c_str() + colon + 1);
  return config.listen.substr(0, colon + 1) + std::to_string(port == 0 ? 0 : port + 1);
}

StateDirectory open_state(Fs& fs, const std::string& path) {
  return StateDirectory::open(fs, path, "tuner").or_throw();
}

std::unique_ptr<KeptFeatures> kept_features(const TunerConfig& config, Fs& fs, Clock& clock,
                                            const StateDirectory& state) {
  if (!config.keep_features) return nullptr;
  return std::make_unique<KeptFeatures>(fs, clock, state.file("features"), config.cache_bytes);
}

// Of SQLite; "" of another database.
std::string file_of(const std::string& labels) {
  constexpr std::string_view kSqlite = "sqlite:";
  return labels.starts_with(kSqlite) ? labels.substr(kSqlite.size()) : "";
}

// Null: no sandbox.
std::unique_ptr<UploadDecoder> decoder_of(const TunerConfig& config) {
  if (config.sandbox == SandboxMode::kOff) return nullptr;
  DecoderPool::Config pool = config.pool;
  pool.workers = static_cast<size_t>(shared_threads().threads());
  return std::make_unique<UploadDecoder>(config.sandbox, pool, "photos that stores send");
}

// Null: the same.
std::unique_ptr<ModelSandbox> model_check_of(const TunerConfig& config) {
  if (config.sandbox == SandboxMode::kOff) return nullptr;
  return std::make_unique<ModelSandbox>(config.model_sandbox);
}

}  // namespace

struct TunerDaemon::Parts {
  Parts(const TunerConfig& config, Devices& devices, Fs& f, Clock& clock)
      : fs(f),
        state(open_state(fs, config.state)),
        model_check(model_check_of(config)),
        models(fs, state.file("models"), model_check.get()),
        versions(fs, state.file("versions.json")),
        guard(f, clock, config.state, std::string(kDefaultCollection), config.http_security,
              config.shown_state),
        labels(config.db.empty() ? "sqlite:" + state.file("labels.db") : config.db),
        scrub({.labels = file_of(labels), .models = state.file("models"), .period = config.scrub},
              fs, clock),
        me(state.next_term(random_bits()).or_throw()),
        features(kept_features(config, fs, clock, state)),
        decoder(decoder_of(config)),
        works({fs, clock, devices, models, &members, features.get(), decoder.get()}, versions,
              labels),
        net(config.security),
        server(
            LinkServer::listen(config.listen, config.security, events, &member_events).or_throw()),
        members({.clock = clock,
                 .links = *server,
                 .net = net.net(),
                 .listen = ranks_listen(config),
                 .silence = config.rank_timeout,
                 .site = config.site},
                TunerSessions(me, kHeartbeat, kWindow, LinkRole::kMember)),
        link_certificates(link_files(config), config.security),
        http_certificates(http_files(config), config.http_security),
        drain(config.drain) {
    lanes = std::make_unique<ThreadLanes>(kWatchLane + std::max<size_t>(1, config.watch.size()),
                                          [this] { events.wake(); });
    const TunerService::Setting setting{
        fs,
        clock,
        state,
        *server,
        *lanes,
        works,
        models,
        versions,
        &uploads,
        &guard.audit(),
        [this](const std::string& store) { return tickets.key_of(store); },
        [this](const std::set<Digest>& photos) {
          return features ? features->forget(photos) : Status();
        },
        config.jobs_at_once,
        config.jobs_kept,
        [this](const Digest& extractor, bool exact, const ViewRule& views) {
          return features ? features->photos_of(extractor, exact, views) : int64_t{0};
        },
        random_bits(),
        &columns};
    service = std::make_unique<TunerService>(setting, me);
    service->remove_done_rows();
    watch(config.watch, clock);
    if (config.http.empty()) return;
    http =
        HttpServer::listen(config.http, routes(), limits::kHttpBody, guard.protection()).or_throw();
  }

  void watch(const std::vector<WatchRule>& rules, Clock& clock) {
    for (const WatchRule& rule : rules) {
      if (watcher_of(rule.job.task, rule.job.collection)) {
        throw Error("two rules watch the task ", rule.job.task, " of the collection ",
                    rule.job.collection);
      }
      const Watcher::Setting sees{.fs = fs,
                                  .clock = clock,
                                  .lanes = *lanes,
                                  .lane = kWatchLane + watchers.size(),
                                  .service = *service,
                                  .versions = versions,
                                  .models = models,
                                  .jobs = state.file("jobs"),
                                  .labels = labels};
      watchers.push_back(std::make_unique<Watcher>(sees, rule));
    }
  }

  ~Parts() {
    {
      const std::lock_guard lock(mutex);
      over = true;
    }
    called.notify_all();
    http.reset();
    service->stop();
    lanes.reset();  // its tasks use the service
    service.reset();
    server.reset();
  }

  SecurityReload<LinkSecurity>::Setting link_files(const TunerConfig& config) {
    const auto renew = [this](const LinkSecurity& s) {
      const Status renewed = net.renew(s);
      if (renewed.ok()) server->renew(s);
      return renewed;
    };
    return {"links", config.read_security, renew};
  }
  SecurityReload<HttpSecurity>::Setting http_files(const TunerConfig& config) {
    std::function<HttpSecurity()> read;
    if (config.read_http_security) {
      read = [this, from = config.read_http_security] { return from(link_certificates.now()); };
    }
    return {"HTTP", read, [this](const HttpSecurity& s) { return guard.renew(s); }};
  }

  std::vector<HttpServer::Route> routes() {
    const WithService with = [this](const auto& g) { return call(g); };
    const TicketFor ticket = [this](const HttpRequest& r, const std::string& store,
                                    const std::string& path) { return ticket_for(r, store, path); };
    const WholeModel whole = [this](const PublishedModel& version) {
      return whole_model(fs, models, state.file("jobs"), version).or_throw();
    };
    auto all = tuner_routes(with, models, versions, members, whole,
                            [this](MetricsText& to) { add_metrics(to); });
    const auto add = [&all](std::vector<HttpServer::Route> more) {
      std::ranges::move(more, std::back_inserter(all));
    };
    add(dashboard_routes(with, feed, versions));
    add(login_routes(guard.access()));
    add(job_file_routes(fs, state.file("jobs")));
    const TrustOf trust = [this](std::string t) { return guard.trust(std::move(t)); };
    add(photo_routes(with, trust, ticket));
    add(placing_routes(with, trust, ticket));
    add(http_labels.routes());
    const auto labelled = [this]() -> LabelDb& { return works.labels(); };
    add(similar_photo_routes(with, trust, ticket, labelled));
    all.push_back(photo_deletion(with, labelled));
    add(trash_routes(with, labelled, system_clock()));
    add(task_routes(with, versions, labelled,
                    [this](const std::string& task) { return watched_collections(task); }));
    all.push_back({"GET", "/watch", Role::kViewer, [this](const HttpRequest& r) {
                     return call([this, &r](TunerService&) { return watched(r); });
                   }});
    all.push_back(guard.audit_route());
    return all;
  }

  // From a thread of HTTP: `f` on the service's thread.
  HttpResponse call(const std::function<HttpResponse(TunerService&)>& f) {
    struct Call {
      HttpResponse response;
      bool done = false;
    };
    const auto call = std::make_shared<Call>();
    std::unique_lock lock(mutex);
    calls.push_back([this, f, call] {
      HttpResponse response = f(*service);
      const std::lock_guard inner(mutex);
      call->response = std::move(response);
      call->done = true;
    });
    events.wake();
    called.wait(lock, [&] { return call->done || over; });
    return call->done ? call->response : http_error(503, "the Tuner stops");
  }

  // Of the same method, at a store; "" where nobody needs a token.
  std::string ticket_for(const HttpRequest& r, const std::string& store, const std::string& path) {
    if (!guard.access().on()) return "";
    return tickets.make(store, {.who = r.who, .method = r.method, .path = path});
  }

  void add_metrics(MetricsText& to) const {
    std::map<std::string, size_t> tasks;
    const std::vector<size_t> lengths = lanes->lengths();
    for (size_t i = 0; i < lengths.size(); ++i) tasks[std::string(lane_name(i))] += lengths[i];
    for (const auto& [lane, n] : tasks) {
      to.gauge("ndtrain_lane_tasks", "Tasks that wait or run, by lane", {{"lane", lane}},
               static_cast<double>(n));
    }
    to.gauge("ndtrain_state_damaged_files",
             "Files of the state that are not as they were written: the log names them", {},
             static_cast<double>(scrub.counts().damaged.size()));
    if (model_check) model_check->add_metrics(to);
    add_process(to);
    const LinkSecurity& link = link_certificates.now();
    const bool stale = !link_certificates.trouble().empty();
    add_certificate(to, "authority", link.authority, stale);
    add_certificate(to, "link", link.certificate, stale);
    add_certificate(to, "http", http_certificates.now().certificate,
                    !http_certificates.trouble().empty());
  }

  const Watcher* watcher_of(const std::string& task, const std::string& collection) const {
    for (const auto& w : watchers) {
      const JobSpec& job = w->rule().job;
      if (job.task == task && job.collection == collection) return w.get();
    }
    return nullptr;
  }

  std::vector<std::string> watched_collections(const std::string& task) const {
    std::vector<std::string> all;
    for (const auto& w : watchers) {
      if (w->rule().job.task == task) all.push_back(w->rule().job.collection);
    }
    return all;
  }

  // The only watch, or that of the task and collection that are asked for.
  HttpResponse watched(const HttpRequest& request) const {
    if (watchers.empty()) {
      return http_error(404, "this Tuner watches nothing: tuner serve --watch RULE");
    }
    const auto asked = [&](const char* key, std::string_view otherwise) {
      const auto value = request.query.find(key);
      return value == request.query.end() ? std::string(otherwise) : value->second;
    };
    const std::string task = asked("task", kDefaultTask);
    const std::string collection = asked("collection", kDefaultCollection);
    const bool any = request.query.empty() && watchers.size() == 1;
    const Watcher* const watcher = any ? watchers[0].get() : watcher_of(task, collection);
    if (watcher) return {.body = watcher->json() + "\n"};
    std::string all;
    for (const auto& w : watchers) {
      all += (all.empty() ? "" : ", ") + w->rule().job.task + " of " + w->rule().job.collection;
    }
    return http_error(404, "no rule watches the task " + printable(task, 256) +
                               " of the collection " + printable(collection, 256) +
                               "; ?task= and ?collection= name one of: " + all);
  }

  void turn() {
    const auto wait = std::clamp<std::chrono::nanoseconds>(
        std::min(service->next(), members.next()) - system_clock().monotonic(),
        std::chrono::milliseconds(1), kLongestWait);
    if (auto event = events.take(wait)) {
      service->handle(std::move(*event));
      for (int i = 1; i < kEventsOfTurn && (event = events.take(std::chrono::nanoseconds(0)));
           ++i) {
        service->handle(std::move(*event));
      }
    }
    for (int i = 0; i < kEventsOfTurn; ++i) {
      auto event = member_events.take(std::chrono::nanoseconds(0));
      if (!event) break;
      members.handle(std::move(*event));
    }
    members.tick();
    for (const Continuation& after : lanes->take_finished()) after();
    std::vector<std::function<void()>> now;
    {
      const std::lock_guard lock(mutex);
      now.swap(calls);
    }
    for (const auto& f : now) f();
    if (!now.empty()) called.notify_all();
    if (const uint64_t list = guard.access().number(); std::exchange(tokens, list) != list) {
      service->set_tokens(guard.access().text());
    }
    service->tick();
    link_certificates.look(system_clock().monotonic());
    http_certificates.look(system_clock().monotonic());
    (void)heap.look(system_clock().monotonic());
    for (const auto& watcher : watchers) {
      if (!finishing) watcher->tick();
    }
    const auto time = system_clock().monotonic();
    if (feed.followed() && time - told >= kTelling) {
      told = time;
      put_events(feed, *service, versions);
    }
  }

  void finish() {
    finishing = true;
    drain_requests(http.get(), drain, [this] { turn(); });
    service->stop();
    while (!service->stopped()) turn();
  }

  Fs& fs;
  StateDirectory state;
  const std::unique_ptr<ModelSandbox> model_check;  // null: no sandbox
  ModelStore models;
  Versions versions;
  HttpGuard guard;
  const Tickets tickets{system_clock()};
  uint64_t tokens = 0;  // the list that the service has
  std::string labels;   // url
  StateScrub scrub;
  const TunerIdentity me;
  const std::unique_ptr<KeptFeatures> features;  // null: none are kept
  const std::unique_ptr<UploadDecoder> decoder;  // null: no sandbox
  DefaultJobFactory works;
  UploadedLabels uploads{[this]() -> LabelDb& { return works.labels(); }, &guard.audit()};
  GroupNet net;
  LinkEvents<wire::FromStore> events, member_events;
  std::unique_ptr<LinkServer> server;
  TunerMembers members;
  SecurityReload<LinkSecurity> link_certificates;
  SecurityReload<HttpSecurity> http_certificates;
  const std::chrono::milliseconds drain;
  HeapTrim heap;
  MappedMemory columns{state.path()};  // of what there is of each photo of a job
  std::unique_ptr<ThreadLanes> lanes;
  std::unique_ptr<TunerService> service;
  std::vector<std::unique_ptr<Watcher>> watchers;
  EventFeed feed{system_clock()};
  std::chrono::nanoseconds told{0};  // when the feed was last looked after
  HttpLabels http_labels{labels, versions, system_clock()};
  std::unique_ptr<HttpServer> http;
  std::mutex mutex;
  std::condition_variable called;
  std::vector<std::function<void()>> calls;
  bool over = false, finishing = false;
};

TunerDaemon::TunerDaemon(const TunerConfig& config, Devices& devices, Fs& fs, Clock& clock)
    : parts_(std::make_unique<Parts>(config, devices, fs, clock)) {}
TunerDaemon::~TunerDaemon() = default;

std::string TunerDaemon::address() const { return parts_->server->address(); }
std::string TunerDaemon::http_address() const {
  return parts_->http ? parts_->http->address() : "";
}
std::vector<std::string> TunerDaemon::http_needs() const {
  return parts_->http ? parts_->http->needs() : std::vector<std::string>();
}
Digest TunerDaemon::add_model(const std::string& path) {
  const Result<Digest> model = parts_->models.add_file(path);
  if (!model.ok()) throw Error(path, ": ", model.status().message());
  return *model;
}

void TunerDaemon::run(const std::function<bool()>& stop) {
  while (!stop()) parts_->turn();
  parts_->finish();
}

TunerDaemon::Outcome TunerDaemon::run_job(const JobSpec& spec, const std::function<bool()>& stop,
                                          const std::function<void(const std::string&)>& say,
                                          const std::function<bool()>& hurry) {
  TunerService& service = *parts_->service;
  uint64_t id = 0;
  for (const auto& [open, record] : service.jobs()) {  // one that was killed goes on
    if (record.open() && record.spec.text() == spec.text()) id = open;
  }
  if (id == 0) id = service.submit(spec);
  if (service.job(id).state == JobState::kPaused) service.resume(id);
  size_t said = 0;
  auto turn = [&] {
    parts_->turn();
    for (const auto& lines = service.log(id); said < lines.size(); ++said) say(lines[said]);
  };
  while (service.job(id).open()) {
    const bool may_hurry = hurry && service.waits_for(id) && !spec.deterministic;
    if (may_hurry && hurry()) service.start_now(id);
    if (stop()) break;
    turn();
  }
  const JobRecord& record = service.job(id);
  Outcome outcome{.ended = !record.open(),
                  .done = record.state == JobState::kDone,
                  .message = record.message,
                  .result = record.result,
                  .directory = join(parts_->state.file("jobs"), std::to_string(id))};
  const auto until = system_clock().monotonic() + std::chrono::minutes(1);
  auto published = [&] {
    const std::string& task = record.spec.task;
    const std::optional<PublishedModel> in_force = parts_->versions.in_force(task);
    return !in_force || std::ranges::all_of(service.stores(), [&](const StoreRecord& s) {
      const bool runs_it = (task == kDefaultTask || s.speaks_of_tasks) &&
                           parts_->versions.collections(task).contains(s.collection);
      return !s.here || !runs_it || s.version_in_force(task) == in_force->version;
    });
  };
  while (outcome.done && !stop() && !service.idle()) turn();  // its features are left to the next
  while (outcome.done && !stop() && !published() && system_clock().monotonic() < until) turn();
  parts_->finish();
  return outcome;
}

}  // namespace ndtrain::tuner
