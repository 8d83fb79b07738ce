#include "tuner/http/http_tasks.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "framework/core/text.h"
#include "tuner/http/http_answer.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

struct Tasks {
  const WithService with;
  const Versions& versions;
  const std::function<LabelDb&()> labels;
  const std::function<std::vector<std::string>(const std::string&)> watched;

  // In which something is labelled, or versions are published; but for what is left of one that was
  // taken away while the database was away. Throws Error.
  std::set<std::string> names() const {
    std::set<std::string> all = {std::string(kDefaultTask)};
    // Before the database is asked: its labels may be gone a moment later.
    const std::map<std::string, RemovedTask> removed = versions.removed_tasks();
    for (const std::string& task : labels().tasks().or_throw()) {
      const auto there = removed.find(task);
      if (there == removed.end() || !there->second.labels) all.insert(task);
    }
    for (const std::string& task : versions.tasks()) all.insert(task);
    return all;
  }

  // On the service's own thread.
  Json outline(const TunerService& service, const std::string& task) const {
    Json numbers = Json::array(), stores = Json::array();
    for (const PublishedModel& m : versions.all()) {
      if (m.task == task) numbers.push_back(m.version);
    }
    for (const StoreRecord& s : service.stores()) {
      if (s.here && s.version_in_force(task) > 0) stores.push_back(s.name);
    }
    const std::optional<PublishedModel> in_force = versions.in_force(task);
    return {{"task", task},
            {"in_force", in_force ? in_force->version : 0},
            {"versions", std::move(numbers)},
            {"collections", versions.collections(task)},
            {"rules", watched(task)},
            {"stores", std::move(stores)}};
  }

  // Of its collections, without what they have in force: they hear of it when they are back.
  Json away(const TunerService& service, const std::string& task) const {
    const std::set<std::string> collections = versions.collections(task);
    Json names = Json::array();
    for (const StoreRecord& s : service.stores()) {
      if (!s.here && collections.contains(s.collection)) names.push_back(s.name);
    }
    return names;
  }

  // What the task has, and would go; `act` is then done on the service's own thread.
  template <typename F>
  HttpResponse about(const std::string& task, F act) const {
    Json json;
    try {
      const std::set<std::string> all = names();
      if (!all.contains(task)) {
        std::string there;
        for (const std::string& name : all) there += (there.empty() ? "" : ", ") + name;
        return http_error(404,
                          "there is no task '" + printable(task, 256) + "'; there are " + there);
      }
      const TaskSize size = labels().task_size(task).or_throw();
      json = {{"labels", size.labels}, {"by_people", size.by_people}, {"classes", size.classes}};
    } catch (const Error& e) {
      return http_error(503, e.what());
    }
    return with([&](TunerService& service) {
      json.update(outline(service, task));
      json["away"] = away(service, task);
      return act(service, json);
    });
  }

  HttpResponse list() const {
    std::set<std::string> all;
    try {
      all = names();
    } catch (const Error& e) {
      return http_error(503, e.what());
    }
    return with([&](const TunerService& service) {
      Json json = Json::array();
      for (const std::string& task : all) json.push_back(outline(service, task));
      return answer(json);
    });
  }

  HttpResponse show(const std::string& task) const {
    return about(task, [&](const TunerService& service, Json& json) {
      const std::string why = service.objection_to_removing(task);
      json["refused"] = why.empty() ? Json() : Json(why);
      return answer(json);
    });
  }

  HttpResponse remove(const std::string& task) const {
    return about(task, [&](TunerService& service, Json& json) {
      try {
        service.remove_task(task);
      } catch (const Error& e) {
        return http_error(400, e.what());
      }
      json["removed"] = true;
      return answer(json);
    });
  }
};

}  // namespace

std::vector<HttpServer::Route> task_routes(
    WithService with, const Versions& versions, std::function<LabelDb&()> labels,
    std::function<std::vector<std::string>(const std::string& task)> watched) {
  const auto tasks = std::make_shared<const Tasks>(
      Tasks{std::move(with), versions, std::move(labels), std::move(watched)});
  using Request = const HttpRequest&;
  return {{"GET", "/tasks", Role::kViewer, [tasks](Request) { return tasks->list(); }},
          {"GET", "/tasks/(.+)", Role::kViewer,
           [tasks](Request r) { return tasks->show(r.captures.at(0)); }},
          {"DELETE",
           "/tasks/(.+)",
           Role::kOperator,
           [tasks](Request r) { return tasks->remove(r.captures.at(0)); },
           {},
           {"task",
            [tasks](Request r) { return text_of(tasks->versions.in_force(r.captures.at(0))); }}}};
}

}  // namespace ndtrain::tuner
