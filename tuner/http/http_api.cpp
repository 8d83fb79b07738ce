#include "tuner/http/http_api.h"

#include <algorithm>

#include "framework/core/json.h"
#include "framework/core/json_input.h"
#include "framework/core/limits.h"
#include "ndp/http/metrics.h"
#include "tuner/http/http_answer.h"
#include "tuner/http/http_members.h"
#include "tuner/http/http_versions.h"

namespace ndtrain::tuner {
using namespace ndp;

Json progress_json(const JobRecord& r, const TunerService& service) {
  Json json = {{"job", r.id},          {"kind", name_of(r.spec.kind)}, {"state", name_of(r.state)},
               {"message", r.message}, {"submitted", r.submitted},     {"started", r.started},
               {"ended", r.ended}};
  if (r.state == JobState::kRunning) {
    const JobReport::Counts counts = service.counts();
    json["doing"] = service.doing();
    json["runs"] = r.spec.runs;
    json["photos"] = counts.photos;
    json["rows"] = counts.durable;
    json["row_bytes"] = counts.row_bytes;
    if (const StoreChoice* choice = service.waits_for(r.id)) {
      json["waits_for"] = Json::array();
      for (const UnavailableStore& s : choice->waits_for) {
        json["waits_for"].push_back({{"store", s.name}, {"photos", s.photos}, {"why", s.why}});
      }
    }
  }
  return json;
}

Json to_json(const StoreRecord& s) {
  return {{"store", s.name},
          {"here", s.here},
          {"drained", s.drained},
          {"photos", s.photos},
          {"version_in_force", s.version_in_force},
          {"model_bytes", s.model_bytes},
          {"program", s.version},
          {"numerics", s.numerics},
          {"last_seen", s.last_seen},
          {"http", s.http},
          {"http_refused", s.http_refused},
          {"free", s.free},
          {"deletions_due", s.deletions_due}};
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

// 307: the client sends the same request there, body and all.
// Without what the client shows here: a ticket does at that store, and for this alone.
HttpResponse place_upload(TunerService& service, const HttpRequest& request,
                          const TicketFor& ticket) {
  const StoreRecord* const store = service.place_upload();
  if (!store) {
    HttpResponse r = http_error(
        503,
        "no PipeStore that is here takes uploads; start one with ndtrain pipestore serve --http "
        "HOST:8421 (it says so when its disk is full, too)");
    r.headers["Retry-After"] = "5";
    return r;
  }
  HttpResponse r = answer({{"store", store->http}}, 307);
  const std::string shown = ticket(request, store->name, "/photos");
  r.headers["Location"] = (store->http.starts_with("https://") ? "" : "http://") + store->http +
                          "/photos" + (shown.empty() ? "" : "?ticket=" + shown);
  return r;
}

// Errors of what was asked for, not of the server.
HttpResponse asked(const std::function<HttpResponse()>& f) {
  try {
    return f();
  } catch (const Error& e) {
    return http_error(400, e.what());
  }
}

HttpResponse metrics(const TunerService& service, const TunerMembers& members) {
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
    m.gauge("ndtrain_store_photos", "Photos of the PipeStore", {{"store", s.name}},
            static_cast<double>(s.photos));
    m.gauge("ndtrain_store_version", "Version in force at the PipeStore", {{"store", s.name}},
            static_cast<double>(s.version_in_force));
  }
  const JobReport::Counts c = service.counts();
  m.gauge("ndtrain_job_photos", "Photos of the job in progress", {}, static_cast<double>(c.photos));
  m.gauge("ndtrain_job_rows", "Rows of it that are durable", {}, static_cast<double>(c.durable));
  const JobReport::Counts all = service.total_counts();
  m.counter("ndtrain_bytes_total", "Bytes received and sent, by kind", {{"kind", "rows"}},
            static_cast<double>(all.row_bytes));
  m.counter("ndtrain_bytes_total", "Bytes received and sent, by kind", {{"kind", "models"}},
            static_cast<double>(all.model_bytes));
  add_metrics(members, m);
  return {.body = m.text(), .type = kMetricsType};
}

HttpResponse log_from(const TunerService& service, uint64_t job, size_t from) {
  const std::vector<std::string>& lines = service.log(job);
  from = std::min(from, lines.size());
  return answer(
      {{"lines", std::vector<std::string>(lines.begin() + static_cast<long>(from), lines.end())},
       {"next", lines.size()},
       {"job", to_json(service.job(job), service)}});
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

Routes health_routes(const WithService& with, const TunerMembers& members) {
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
       on(with, [&members](TunerService& s, Request) { return metrics(s, members); })}};
}

HttpResponse job_log(TunerService& s, Request r) {
  const auto from = r.query.find("from");
  const bool given = from != r.query.end() && !from->second.empty() &&
                     from->second.find_first_not_of("0123456789") == std::string::npos;
  return log_from(s, number(r), given ? std::stoull(from->second.substr(0, 18)) : 0);
}

// A spec, and beside its keys `notes`, which are no part of it.
HttpResponse submit_job(TunerService& s, Request r) {
  Result<Json> body = read_json(r.body);
  if (!body.ok() || !body->is_object() || !body->contains("notes")) {
    return answer({{"job", s.submit(parse_job_spec(r.body))}}, 201);
  }
  const Notes notes = notes_of(body->at("notes"));
  body->erase("notes");
  return answer({{"job", s.submit(parse_job_spec(json_text(*body)), notes)}}, 201);
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

Routes job_routes(const WithService& with) {
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
      {"POST", "/jobs", Role::kOperator, on(with, submit_job), {}, {"job"}},
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

Routes file_routes(const WithService& with, ModelStore& models, const TicketFor& ticket) {
  return {{"POST",
           "/photos",
           {Role::kUploader, HttpScope::kPhotos},
           on(with, [ticket](TunerService& s, Request r) { return place_upload(s, r, ticket); }),
           {.read = false}},
          {"GET", "/models/([0-9a-f]{64})", Role::kOperator,
           [&models](Request r) {
             const bool here = models.read_all(digest_from_hex(r.captures.at(0))).ok();
             return here ? answer({{"model", r.captures.at(0)}}) : http_error(404, "no such model");
           }},
          {"PUT",
           "/models/([0-9a-f]{64})",
           Role::kOperator,
           [&models](Request r) { return put_model(models, r); },
           {.most = limits::kModelFile}}};
}

}  // namespace

std::vector<HttpServer::Route> tuner_routes(WithService with, ModelStore& models,
                                            Versions& versions, const TunerMembers& members,
                                            const TicketFor& ticket) {
  Routes routes = {members_route(members)};
  for (Routes part : {health_routes(with, members), job_routes(with), store_routes(with),
                      file_routes(with, models, ticket), version_routes(with, models, versions)}) {
    std::ranges::move(part, std::back_inserter(routes));
  }
  return routes;
}

}  // namespace ndtrain::tuner
