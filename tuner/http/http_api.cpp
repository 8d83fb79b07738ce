#include "tuner/http/http_api.h"

#include <algorithm>

#include "framework/core/json.h"
#include "framework/core/json_input.h"
#include "framework/core/limits.h"
#include "tuner/http/http_answer.h"
#include "tuner/http/http_members.h"
#include "tuner/http/http_versions.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

Json to_json(const std::vector<UnavailableStore>& stores) {
  Json all = Json::array();
  for (const UnavailableStore& s : stores) {
    all.push_back({{"store", s.name}, {"photos", s.photos}, {"why", s.why}});
  }
  return all;
}

Json to_json(const JobWait& wait) { return {{"job", wait.job}, {"why", wait.why}}; }

}  // namespace

Json progress_json(const JobRecord& r, const TunerService& service) {
  Json json = {{"job", r.id},          {"kind", name_of(r.spec.kind)}, {"state", name_of(r.state)},
               {"message", r.message}, {"submitted", r.submitted},     {"started", r.started},
               {"ended", r.ended}};
  if (const auto wait = service.waits_for_job(r.id)) json["waits_for_job"] = to_json(*wait);
  if (r.state != JobState::kRunning) return json;
  const auto job = service.in_progress(r.id);
  const JobReport::Counts counts = job ? job->report.counts() : JobReport::Counts();
  json["doing"] = service.doing(r.id);
  json["runs"] = r.spec.runs;
  json["photos"] = counts.photos;
  json["rows"] = counts.durable;
  json["row_bytes"] = counts.row_bytes;
  json["row_bytes_of_stores"] =
      job ? job->report.row_bytes_of_stores() : std::map<std::string, uint64_t>();
  if (const StoreChoice* choice = service.waits_for(r.id)) {
    json["waits_for"] = to_json(choice->waits_for);
  }
  return json;
}

Json to_json(const StoreRecord& s) {
  return {{"store", s.name},
          {"here", s.here},
          {"drained", s.drained},
          {"wrong_features", s.wrong_features},
          {"photos", s.photos},
          {"damaged", s.damaged},
          {"collection", s.collection},
          {"version_in_force", s.version_in_force()},
          {"in_force", s.in_force},
          {"model_bytes", s.model_bytes},
          {"program", s.version},
          {"numerics", s.numerics},
          {"last_seen", s.last_seen},
          {"http", s.http},
          {"http_refused", s.http_refused},
          {"free", s.free},
          {"deletions_due", s.deletions_due},
          {"link", s.link.measured == 0 ? Json() : tuner::to_json(s.link)}};
}

namespace {

Json to_json(const JobRecord& r, const TunerService& service) {
  Json json = progress_json(r, service);
  json["name"] = r.notes.name;
  json["note"] = r.notes.note;
  json["tags"] = r.notes.tags;
  json["spec"] = parse_json(r.spec.text());
  json["result"] = parse_json(r.result);
  return json;
}

// Errors of what was asked for, not of the server.
HttpResponse asked(const std::function<HttpResponse()>& f) {
  try {
    return f();
  } catch (const Error& e) {
    return http_error(400, e.what());
  }
}

struct JobGauge {
  const char *name, *help;
};
constexpr JobGauge kJobPhotos{"ndtrain_job_photos", "Photos of a job in progress"},
    kJobRows{"ndtrain_job_rows", "Rows of it that are durable"},
    kJobNetwork{"ndtrain_job_network_seconds",
                "Seconds that the network took for a run of a job in progress"};

void add_jobs(const TunerService& service, MetricsText& to) {
  for (const JobGauge& g : {kJobPhotos, kJobRows, kJobNetwork}) to.gauges(g.name, g.help);
  for (const auto& [id, record] : service.jobs()) {
    const auto job = service.in_progress(id);
    if (!job) continue;
    const std::string number = std::to_string(id);
    const JobReport::Counts c = job->report.counts();
    to.gauge(kJobPhotos.name, kJobPhotos.help, {{"job", number}}, static_cast<double>(c.photos));
    to.gauge(kJobRows.name, kJobRows.help, {{"job", number}}, static_cast<double>(c.durable));
    for (const auto& [run, seconds] : job->report.network_seconds()) {
      to.gauge(kJobNetwork.name, kJobNetwork.help, {{"job", number}, {"run", std::to_string(run)}},
               seconds);
    }
  }
  to.gauge("ndtrain_spool_rows", "Rows that have come and wait to be made durable", {},
           static_cast<double>(service.rows_waiting()));
}

void add_photos_by_state(const TunerService& service, MetricsText& to) {
  uint64_t deleting = 0;
  for (const StoreRecord& s : service.stores()) deleting += s.deletions_due;
  const std::pair<const char*, uint64_t> states[] = {{"trash", service.trash().photos().size()},
                                                     {"deleting", deleting}};
  for (const auto& [state, photos] : states) {
    to.gauge("ndtrain_photos_by_state",
             "Photos in the trash, and those that are still to go from stores, of each store",
             {{"state", state}}, static_cast<double>(photos));
  }
}

HttpResponse metrics(const TunerService& service, const TunerMembers& members,
                     const MoreMetrics& more) {
  MetricsText m;
  std::map<std::string_view, double> by_state;
  for (const JobState s : {JobState::kQueued, JobState::kRunning, JobState::kDone,
                           JobState::kFailed, JobState::kCancelled, JobState::kPaused}) {
    by_state[name_of(s)] = 0;
  }
  for (const auto& [id, r] : service.jobs()) by_state[name_of(r.state)] += 1;
  for (const auto& [state, n] : by_state) {
    m.gauge("ndtrain_jobs", "Jobs by state", {{"state", std::string(state)}}, n);
  }
  for (const StoreRecord& s : service.stores()) {
    m.gauge("ndtrain_store_up", "Whether the PipeStore has a session", {{"store", s.name}}, s.here);
    m.gauge("ndtrain_store_features_wrong",
            "Whether the PipeStore is drained since its features are not those of others",
            {{"store", s.name}}, !s.wrong_features.empty());
    m.gauge("ndtrain_store_photos", "Photos of the PipeStore", {{"store", s.name}},
            static_cast<double>(s.photos));
    m.gauge("ndtrain_store_photos_damaged", "Photos whose files a disk has changed there",
            {{"store", s.name}}, static_cast<double>(s.damaged));
    for (const auto& [task, version] : s.in_force) {
      m.gauge("ndtrain_store_version", "Version in force at the PipeStore",
              {{"store", s.name}, {"task", task}}, static_cast<double>(version));
    }
  }
  add_jobs(service, m);
  add_photos_by_state(service, m);
  const JobReport::Counts all = service.total_counts();
  m.counter("ndtrain_bytes_total", "Bytes received and sent, by kind", {{"kind", "rows"}},
            static_cast<double>(all.row_bytes));
  m.counter("ndtrain_bytes_total", "Bytes received and sent, by kind", {{"kind", "models"}},
            static_cast<double>(all.model_bytes));
  m.counter("ndtrain_network_seconds_total", "Seconds that the network took for runs of jobs", {},
            all.network_s);
  add_metrics(members, m);
  more(m);
  return {.body = m.text(), .type = kMetricsType};
}

HttpResponse log_from(const TunerService& service, uint64_t job, size_t from) {
  const std::vector<std::string> lines = service.log(job);
  from = std::min(from, lines.size());
  return answer(
      {{"lines", std::vector<std::string>(lines.begin() + static_cast<long>(from), lines.end())},
       {"next", lines.size()},
       {"job", to_json(service.job(job), service)}});
}

// The fields of a ModelProto have two of protobuf's wire types; text, JSON and packed files begin
// with another.
std::optional<HttpResponse> no_model(const HttpRequest& /*request*/, std::string_view beginning) {
  const int wire_type = beginning.front() & 7;
  if (wire_type == 0 || wire_type == 2) return std::nullopt;
  return http_error(400, "this is no ONNX file: it does not begin as one");
}

HttpResponse put_model(ModelStore& models, const HttpRequest& request) {
  const Digest digest = sha256(request.body);
  if (to_hex(digest) != request.captures.at(0)) {
    return http_error(400, "what arrived has the digest " + to_hex(digest).substr(0, 12));
  }
  const Result<Digest> added = models.add(request.body);
  if (!added.ok()) {
    return http_error(added.status().code() == Code::kNoSpace ? 507 : 500,
                      added.status().message());
  }
  return answer({{"model", to_hex(digest)}}, 201);
}

using Request = const HttpRequest&;
using Routes = std::vector<HttpServer::Route>;

template <typename F>
auto on(const WithService& with, F f) {
  return [with, f](Request request) {
    return with([&](TunerService& s) { return asked([&] { return f(s, request); }); });
  };
}

Routes health_routes(const WithService& with, const TunerMembers& members,
                     const MoreMetrics& more) {
  return {
      {"GET", "/healthz", Role::kAnyone,
       [](Request) {
         return answer({{"status", "ok"}});
       }},
      {"GET", "/readyz", Role::kViewer,
       on(with,
          [](TunerService& s, Request) {
            return answer({{"status", "ready"}, {"stores", s.stores().size()}, {"room", s.room()}});
          })},
      {"GET", "/metrics", Role::kViewer,
       on(with, [&members, more](TunerService& s, Request) { return metrics(s, members, more); })}};
}

HttpResponse job_log(TunerService& s, Request r) {
  const auto from = r.query.find("from");
  const bool given = from != r.query.end() && !from->second.empty() &&
                     from->second.find_first_not_of("0123456789") == std::string::npos;
  return log_from(s, number(r), given ? std::stoull(from->second.substr(0, 18)) : 0);
}

// A spec, and beside its keys `notes`, which are no part of it. A fine-tuning without a model
// begins with the version that is in force now.
HttpResponse submit_job(const WithService& with, const Versions& versions, const WholeModel& whole,
                        Request r) {
  return asked([&] {
    Result<Json> body = read_json(r.body);
    Notes notes;
    if (body.ok() && body->is_object() && body->contains("notes")) {
      notes = notes_of(body->at("notes"));
      body->erase("notes");
    }
    JobSpec spec = parse_job_spec(body.ok() ? json_text(*body) : r.body);
    if (spec.kind == JobKind::kFinetune && spec.model.empty()) {
      if (const auto in_force = versions.in_force(spec.task)) spec.model = to_hex(whole(*in_force));
    }
    return with([&](TunerService& s) {
      return asked([&] { return answer({{"job", s.submit(spec, notes)}}, 201); });
    });
  });
}

// What submitting would begin with; nothing is changed. Who only plans need not have sent a model.
HttpResponse plan_job(TunerService& s, Request r) {
  const JobSpec spec = parse_job_spec(r.body);
  if (!r.query.contains("unchecked")) s.check(spec);
  const StoreChoice choice = s.stores_for(spec);
  const JobPlan plan = s.plan(spec, choice);
  uint64_t open = 0;
  for (const auto& [id, job] : s.jobs()) open += job.open();
  Json json = {{"spec", parse_json(spec.text())},
               {"stores", choice.take},
               {"photos", plan.photos},
               {"waits_for", to_json(choice.waits_for)},
               {"unknown_stores", choice.strangers},
               {"left_out", to_json(choice.left_out)},
               {"jobs_before", open},
               {"enough", plan.stores.enough},
               {"by_need", plan.stores.stores},
               {"photos_by_need", plan.stores.photos},
               {"speeds_by_need", plan.stores.speeds},
               {"distinct_photos", plan.stores.distinct},
               {"kept", plan.kept},
               {"forecast", plan.forecast}};
  if (const auto wait = s.would_wait(spec)) json["waits_for_job"] = to_json(*wait);
  return answer(json);
}

HttpResponse note_job(TunerService& s, Request r) {
  s.change_notes(number(r), parse_notes_change(r.body));
  return answer(to_json(s.job(number(r)), s));
}

HttpResponse steer_job(TunerService& s, Request r) {
  const std::string& what = r.captures.at(1);
  what == "cancel"      ? s.cancel(number(r))
  : what == "pause"     ? s.pause(number(r))
  : what == "start-now" ? s.start_now(number(r))
                        : s.resume(number(r), r.body.empty() ? "{}" : r.body);
  return answer(to_json(s.job(number(r)), s));
}

Routes job_routes(const WithService& with, const Versions& versions, const WholeModel& whole) {
  return {
      {"GET", "/jobs", Role::kViewer,
       on(with,
          [](TunerService& s, Request) {
            Json all = Json::array();
            for (const auto& [id, r] : s.jobs()) {
              all.push_back(to_json(r, s));
            }
            return answer(all);
          })},
      {"POST",
       "/jobs",
       Role::kOperator,
       [with, &versions, whole](Request r) { return submit_job(with, versions, whole, r); },
       {},
       {"job"}},
      {"POST", "/jobs/plan", Role::kViewer, on(with, plan_job)},
      {"GET", "/jobs/([0-9]{1,18})", Role::kViewer,
       on(with, [](TunerService& s, Request r) { return answer(to_json(s.job(number(r)), s)); })},
      {"GET", "/jobs/([0-9]{1,18})/log", Role::kViewer, on(with, job_log)},
      {"POST",
       "/jobs/([0-9]{1,18})/(cancel|pause|resume|start-now)",
       Role::kOperator,
       on(with, steer_job),
       {},
       {"job"}},
      {"POST", "/jobs/([0-9]{1,18})/notes", Role::kOperator, on(with, note_job), {}, {"note"}}};
}

Routes store_routes(const WithService& with) {
  return {{"GET", "/stores", Role::kViewer,
           on(with,
              [](TunerService& s, Request) {
                Json all = Json::array();
                for (const StoreRecord& r : s.stores()) {
                  all.push_back(to_json(r));
                }
                return answer(all);
              })},
          {"POST",
           "/stores/([^/]+)/(drain|undrain)",
           Role::kOperator,
           on(with,
              [](TunerService& s, Request r) {
                const bool drained = r.captures.at(1) == "drain";
                s.drain(r.captures.at(0), drained);
                return answer({{"store", r.captures.at(0)}, {"drained", drained}});
              }),
           {},
           {"store"}},
          {"DELETE",
           "/stores/([^/]+)",
           Role::kOperator,
           on(with,
              [](TunerService& s, Request r) {
                s.forget(r.captures.at(0));
                return answer({{"store", r.captures.at(0)}, {"forgotten", true}});
              }),
           {},
           {"store"}}};
}

Routes file_routes(ModelStore& models) {
  return {{"GET", "/models/([0-9a-f]{64})", Role::kOperator,
           [&models](Request r) {
             const bool here = models.read_all(digest_from_hex(r.captures.at(0))).ok();
             return here ? answer({{"model", r.captures.at(0)}}) : http_error(404, "no such model");
           }},
          {"PUT",
           "/models/([0-9a-f]{64})",
           Role::kOperator,
           [&models](Request r) { return put_model(models, r); },
           {.most = limits::kModelFile, .begin = no_model}}};
}

}  // namespace

std::vector<HttpServer::Route> tuner_routes(WithService with, ModelStore& models,
                                            Versions& versions, const TunerMembers& members,
                                            const WholeModel& whole_model,
                                            const MoreMetrics& more) {
  Routes routes = {members_route(members)};
  for (Routes part :
       {health_routes(with, members, more), job_routes(with, versions, whole_model),
        store_routes(with), file_routes(models), version_routes(with, models, versions)}) {
    std::ranges::move(part, std::back_inserter(routes));
  }
  return routes;
}

}  // namespace ndtrain::tuner
