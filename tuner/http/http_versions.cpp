#include "tuner/http/http_versions.h"

#include <algorithm>

#include "framework/core/json.h"
#include "ndp/deltas/delta.h"
#include "tuner/http/http_answer.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

// Errors of what was asked for, not of the server.
template <typename F>
HttpResponse asked(F f) {
  try {
    return answer(f());
  } catch (const Error& e) {
    return http_error(400, e.what());
  }
}

int64_t bytes_of_files(const ModelStore& models, const PublishedModel& m) {
  return models.size(m.extractor) + (m.head == m.extractor ? 0 : models.size(m.head));
}

Json to_json(const PublishedModel& m, const ModelStore& models, const Versions& versions,
             const TunerService& service) {
  Json stores = Json::array();
  for (const StoreRecord& s : service.stores()) {
    if (s.runs(m.version)) stores.push_back(s.name);
  }
  return {{"version", m.version},
          {"task", m.task},
          {"aliases", versions.aliases_of(m.version)},
          {"parent", m.parent},
          {"job", m.job},
          {"created", m.created},
          {"classes", m.classes.size()},
          {"content", to_hex(m.content)},
          {"extractor", to_hex(m.extractor)},
          {"head", to_hex(m.head)},
          {"photos", to_hex(m.photos)},
          {"bytes", bytes_of_files(models, m)},
          {"stores", std::move(stores)},
          {"metrics", parse_json(m.metrics)},
          {"name", m.notes.name},
          {"note", m.notes.note},
          {"tags", m.notes.tags}};
}

// Of one task, where the query names it.
Json all_versions(const TunerService& service, const ModelStore& models, const Versions& versions,
                  const HttpRequest& request) {
  const auto task = request.query.find("task");
  Json all = Json::array();
  for (const PublishedModel& m : versions.all()) {
    if (task != request.query.end() && task->second != m.task) continue;
    all.push_back(to_json(m, models, versions, service));
  }
  return all;
}

std::string task_of(const HttpRequest& request) {
  const auto task = request.query.find("task");
  return task == request.query.end() ? std::string(kDefaultTask) : task->second;
}

// What is in force of the task that a promotion or a rollback is about.
std::string replaced_by(const HttpRequest& request, const Versions& versions) {
  if (request.captures.empty()) return text_of(versions.in_force(task_of(request)));
  const std::optional<PublishedModel> promoted = versions.find(tuner::number(request));
  return promoted ? text_of(versions.in_force(promoted->task)) : "";
}

PublishedModel existing(const Versions& versions, uint64_t version) {
  const std::optional<PublishedModel> model = versions.find(version);
  if (!model) throw Error("there is no version ", version);
  return *model;
}

// Throws Error where a rollback would.
Json rollback_preview(const Versions& versions, const std::string& task) {
  const std::optional<uint64_t> before = versions.in_force_before(task);
  if (!before) throw Error("no version", of_task(task), " was in force before the one that is");
  return {{"task", task},
          {"from", versions.in_force(task)->version},
          {"to", existing(versions, *before).version}};
}

Json note(const TunerService& service, const ModelStore& models, Versions& versions,
          uint64_t version, const std::string& change) {
  const PublishedModel m = versions.change_notes(version, parse_notes_change(change)).or_throw();
  return to_json(m, models, versions, service);
}

std::vector<std::string> beyond(const std::vector<std::string>& a,
                                const std::vector<std::string>& b) {
  std::vector<std::string> only;
  for (const std::string& name : a) {
    if (std::ranges::find(b, name) == b.end()) only.push_back(name);
  }
  return only;
}

// What a store that has one file fetches to have the other.
Json file_diff(const ModelStore& models, const char* name, const Digest& from, const Digest& to) {
  Json json = {{"file", name},
               {"same", from == to},
               {"from_bytes", models.size(from)},
               {"to_bytes", models.size(to)}};
  if (from == to) {
    json["delta_bytes"] = 0;
    return json;
  }
  const std::string base = models.read_all(from).or_throw(),
                    result = models.read_all(to).or_throw();
  const Result<Delta> delta = make_delta(base, result);
  if (!delta.ok()) {
    json["no_delta"] = delta.status().message();
    return json;
  }
  json["delta_bytes"] = delta->bytes.size();
  std::map<std::string, uint64_t> counts;
  Json changed = Json::array();
  for (const TensorChange& t : delta->tensors) {
    ++counts[name_of(t.kind)];
    if (t.kind == TensorChange::Kind::kUnchanged) continue;
    changed.push_back({{"tensor", t.name},
                       {"change", name_of(t.kind)},
                       {"bytes", t.tensor_bytes},
                       {"delta_bytes", t.delta_bytes}});
  }
  json["tensors"] = counts;
  json["changed"] = std::move(changed);
  return json;
}

Json diff(const ModelStore& models, const PublishedModel& a, const PublishedModel& b) {
  Json files = Json::array();
  files.push_back(
      file_diff(models, a.head == a.extractor ? "model" : "extractor", a.extractor, b.extractor));
  if (a.head != a.extractor || b.head != b.extractor) {
    files.push_back(file_diff(models, "head", a.head, b.head));
  }
  return {{"from", a.version},
          {"to", b.version},
          {"files", std::move(files)},
          {"classes_added", beyond(b.classes, a.classes)},
          {"classes_removed", beyond(a.classes, b.classes)},
          {"same_photos", a.photos == b.photos},
          {"metrics_from", parse_json(a.metrics)},
          {"metrics_to", parse_json(b.metrics)}};
}

}  // namespace

std::vector<HttpServer::Route> version_routes(WithService with, const ModelStore& models,
                                              Versions& versions) {
  const auto on = [with](auto f) {
    return [with, f](const HttpRequest& request) {
      return with([&](TunerService& s) { return asked([&] { return f(s, request); }); });
    };
  };
  using Request = const HttpRequest&;
  const HttpAudit promotion = {"promotion",
                               [&versions](Request r) { return replaced_by(r, versions); }};
  return {
      {"GET", "/versions", Role::kViewer,
       on([&](TunerService& s, Request r) { return all_versions(s, models, versions, r); })},
      {"GET", "/versions/([0-9]{1,18})", Role::kViewer, on([&](TunerService& s, Request r) {
         return to_json(existing(versions, number(r)), models, versions, s);
       })},
      // Deltas are made for it, so not on the service's thread.
      {"GET", "/versions/([0-9]{1,18})/diff/([0-9]{1,18})", Role::kViewer,
       [&](Request r) {
         return asked([&] {
           return diff(models, existing(versions, number(r)), existing(versions, number(r, 1)));
         });
       }},
      {"POST",
       "/versions/([0-9]{1,18})/(production|candidate)",
       Role::kOperator,
       on([&](TunerService& s, Request r) {
         const bool production = r.captures.at(1) == kProduction;
         production ? s.promote(number(r)) : s.set_candidate(number(r));
         return to_json(existing(versions, number(r)), models, versions, s);
       }),
       {},
       promotion},
      {"GET", "/versions/rollback", Role::kViewer,
       on([&](TunerService&, Request r) { return rollback_preview(versions, task_of(r)); })},
      {"POST",
       "/versions/rollback",
       Role::kOperator,
       on([&](TunerService& s, Request r) {
         return to_json(existing(versions, s.rollback(task_of(r))), models, versions, s);
       }),
       {},
       promotion},
      {"POST",
       "/versions/([0-9]{1,18})/notes",
       Role::kOperator,
       on([&](TunerService& s, Request r) { return note(s, models, versions, number(r), r.body); }),
       {},
       {"note"}},
      {"DELETE",
       "/versions/([0-9]{1,18})",
       Role::kOperator,
       on([](TunerService& s, Request r) {
         s.remove_version(number(r));
         return Json{{"version", number(r)}, {"removed", true}};
       }),
       {},
       {"removal"}},
  };
}

}  // namespace ndtrain::tuner
