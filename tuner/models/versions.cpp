#include "tuner/models/versions.h"

#include <algorithm>

#include "framework/core/checksummed_json.h"
#include "framework/core/json.h"
#include "framework/core/publish.h"
#include "ndp/labels/version_name.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr int kFormat = 3;  // of 2, all is of one task
constexpr int kOneTask = 2;

Json to_json(const PublishedModel& m) {
  Json json = {{"version", m.version},
               {"task", m.task},
               {"parent", m.parent},
               {"content", to_hex(m.content)},
               {"extractor", to_hex(m.extractor)},
               {"head", to_hex(m.head)},
               {"classes", m.classes},
               {"created", m.created},
               {"metrics", parse_json(m.metrics)},
               {"job", m.job},
               {"photos", to_hex(m.photos)}};
  if (!m.notes.empty()) json["notes"] = ndp::to_json(m.notes);
  return json;
}

Digest digest(const Json& j) { return digest_from_hex(j.get<std::string>()); }

// Of any format: earlier ones have no tasks, the first neither parents nor photos.
PublishedModel from_json(const Json& j) {
  PublishedModel m{.version = j.at("version"),
                   .content = digest(j.at("content")),
                   .extractor = digest(j.at("extractor")),
                   .head = digest(j.at("head")),
                   .classes = j.at("classes"),
                   .created = j.at("created"),
                   .metrics = json_text(j.at("metrics")),
                   .job = j.at("job")};
  if (j.contains("task")) m.task = j.at("task");
  if (j.contains("parent")) m.parent = j.at("parent");
  if (j.contains("photos")) m.photos = digest(j.at("photos"));
  if (j.contains("notes")) m.notes = notes_of(j.at("notes"));
  return m;
}

}  // namespace

std::optional<int64_t> number_of(const PublishedModel& m) {
  return m.version == 0 ? std::nullopt : std::optional(static_cast<int64_t>(m.version));
}

std::string text_of(const PublishedModel& m) {
  return "version " + full_version_name(number_of(m), m.content);
}

std::string text_of(const std::optional<PublishedModel>& m) {
  return m ? text_of(*m) : "no version";
}

std::string of_task(std::string_view task) {
  return task == kDefaultTask ? "" : " of the task " + std::string(task);
}

Versions::Versions(Fs& fs, std::string path) : fs_(fs), path_(std::move(path)) {
  const Result<std::string> text = fs_.read(path_);
  if (text.status().code() == Code::kNotFound) return;
  text.status().or_throw();
  try {
    state_ = read(*text);
  } catch (const std::exception& e) {
    throw Error(path_, ": ", e.what());
  }
}

Versions::State Versions::read(const std::string& text) {
  const Json json = verified(text);
  State s;
  const std::string only(kDefaultTask);
  if (json.is_array()) {  // the first format: the newest was in force, each followed the last
    for (const Json& j : json) {
      s.all.push_back(from_json(j));
      s.all.back().parent = s.all.back().version - 1;
    }
    if (s.all.empty()) return s;
    const uint64_t newest = s.all.back().version;
    s.next = newest + 1;
    s.tasks[only] = {.aliases = {{kProduction, newest}, {kCandidate, newest}},
                     .promotions = s.promotions_by_parents(newest),
                     .collections = {std::string(kDefaultCollection)}};
    return s;
  }
  const Json& format = json.at("format");
  if (format != kFormat && format != kOneTask) {
    throw Error("has format ", json_text(format), "; this program reads up to ", kFormat);
  }
  s.next = json.at("next");
  for (const Json& j : json.at("versions")) s.all.push_back(from_json(j));
  for (const Json& j : json.at("garbage")) s.garbage.push_back(digest(j));
  if (format == kOneTask) {
    s.tasks[only] = read_task(json, s, only);
    return s;
  }
  for (const auto& [name, task] : json.at("tasks").items()) {
    s.tasks[name] = read_task(task, s, name);
  }
  const Json removed = json.value("removed", Json::object());
  for (const auto& [name, r] : removed.items()) {
    s.removed[name] = {.time = r.at("time"), .last = r.at("last"), .labels = r.at("labels")};
  }
  return s;
}

Versions::Task Versions::read_task(const Json& json, const State& s, const std::string& name) {
  Task task;
  for (const auto& [alias, version] : json.at("aliases").items()) {
    const PublishedModel* m = s.find(version.get<uint64_t>());
    if (!m) throw Error("alias ", alias, " points to no version");
    if (m->task != name) {
      throw Error("alias ", alias, " of the task ", name, " points to version ", m->version,
                  " of the task ", m->task);
    }
    task.aliases[alias] = m->version;
  }
  task.collections = json.value("collections", std::set{std::string(kDefaultCollection)});
  const auto production = task.aliases.find(kProduction);
  const uint64_t now = production == task.aliases.end() ? 0 : production->second;
  task.promotions = json.contains("promotions") ? json.at("promotions").get<std::vector<uint64_t>>()
                                                : s.promotions_by_parents(now);
  if ((task.promotions.empty() ? 0 : task.promotions.back()) != now) {
    throw Error("the promotions do not end with the version that is ", kProduction);
  }
  return task;
}

std::string Versions::write(const State& s) {
  Json versions = Json::array(), garbage = Json::array(), tasks = Json::object(),
       removed = Json::object();
  for (const PublishedModel& m : s.all) versions.push_back(to_json(m));
  for (const Digest& d : s.garbage) garbage.push_back(to_hex(d));
  for (const auto& [name, task] : s.tasks) {
    tasks[name] = {{"aliases", Json(task.aliases)},
                   {"promotions", task.promotions},
                   {"collections", task.collections}};
  }
  for (const auto& [name, r] : s.removed) {
    removed[name] = {{"time", r.time}, {"last", r.last}, {"labels", r.labels}};
  }
  return checksummed({{"format", kFormat},
                      {"next", s.next},
                      {"tasks", std::move(tasks)},
                      {"removed", std::move(removed)},
                      {"versions", std::move(versions)},
                      {"garbage", std::move(garbage)}});
}

Status Versions::keep(State state) {
  if (const Status s = publish(fs_, path_, write(state)); !s.ok()) return s;
  state_ = std::move(state);
  return {};
}

const PublishedModel* Versions::State::find(uint64_t version) const {
  const auto it = std::ranges::find(all, version, &PublishedModel::version);
  return it == all.end() ? nullptr : &*it;
}

void Versions::State::drop_files(const PublishedModel& gone) {
  for (const Digest& file : {gone.extractor, gone.head}) {
    const bool shared =
        std::ranges::any_of(all, [&](const PublishedModel& m) { return m.has_file(file); });
    if (!shared && std::ranges::find(garbage, file) == garbage.end()) garbage.push_back(file);
  }
}

void Versions::Task::put_in_force(uint64_t version) {
  aliases[kProduction] = version;
  if (!promotions.empty() && promotions.back() == version) return;
  promotions.push_back(version);
  if (promotions.size() > kHistory) promotions.erase(promotions.begin());
}

std::vector<uint64_t> Versions::State::promotions_by_parents(uint64_t in_force) const {
  std::vector<uint64_t> newest_first;
  for (uint64_t version = in_force; version != 0;) {
    newest_first.push_back(version);
    const PublishedModel* m = find(version);
    version = m && m->parent < version ? m->parent : 0;
  }
  return {newest_first.rbegin(), newest_first.rend()};
}

std::vector<PublishedModel> Versions::all() const {
  const std::lock_guard lock(mutex_);
  return state_.all;
}

std::optional<PublishedModel> Versions::find(uint64_t version) const {
  const std::lock_guard lock(mutex_);
  const PublishedModel* m = state_.find(version);
  return m ? std::optional(*m) : std::nullopt;
}

std::vector<std::string> Versions::tasks() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, task] : state_.tasks) names.push_back(name);
  return names;
}

std::optional<PublishedModel> Versions::in_force(std::string_view task) const {
  const std::map<std::string, uint64_t> now = aliases(task);
  const auto it = now.find(kProduction);
  return it == now.end() ? std::nullopt : find(it->second);
}

std::set<std::string> Versions::collections(std::string_view task) const {
  const std::lock_guard lock(mutex_);
  const auto it = state_.tasks.find(task);
  return it == state_.tasks.end() ? std::set<std::string>() : it->second.collections;
}

Status Versions::add_collection(const std::string& task, const std::string& collection) {
  const std::lock_guard lock(mutex_);
  State s = state_;
  if (!s.tasks[task].collections.insert(collection).second) return {};
  return keep(std::move(s));
}

std::optional<PublishedModel> Versions::of_job(uint64_t job) const {
  const std::lock_guard lock(mutex_);
  const auto it = std::ranges::find(state_.all, job, &PublishedModel::job);
  return it == state_.all.end() ? std::nullopt : std::optional(*it);
}

std::map<std::string, uint64_t> Versions::aliases(std::string_view task) const {
  const std::lock_guard lock(mutex_);
  const auto it = state_.tasks.find(task);
  return it == state_.tasks.end() ? std::map<std::string, uint64_t>() : it->second.aliases;
}

std::vector<std::string> Versions::aliases_of(uint64_t version) const {
  std::vector<std::string> names;
  const std::optional<PublishedModel> model = find(version);
  if (!model) return names;
  for (const auto& [alias, of] : aliases(model->task)) {
    if (of == version) names.push_back(alias);
  }
  return names;
}

Result<PublishedModel> Versions::add(PublishedModel model, bool production) {
  const std::lock_guard lock(mutex_);
  State s = state_;
  model.version = s.next++;
  s.all.push_back(model);
  Task& task = s.tasks[model.task];
  task.aliases[kCandidate] = model.version;
  if (production) task.put_in_force(model.version);
  std::erase_if(s.garbage, [&](const Digest& d) { return model.has_file(d); });
  if (const Status kept = keep(std::move(s)); !kept.ok()) return kept;
  return model;
}

Status Versions::point(const std::string& alias, uint64_t version) {
  if (alias != kProduction && alias != kCandidate) {
    throw Error("there is no alias '", alias, "'; there are ", kProduction, " and ", kCandidate);
  }
  const std::lock_guard lock(mutex_);
  State s = state_;
  const PublishedModel* model = s.find(version);
  if (!model) throw Error("there is no version ", version);
  Task& task = s.tasks[model->task];
  if (alias == kProduction) {
    task.put_in_force(version);
  } else {
    task.aliases[alias] = version;
  }
  return keep(std::move(s));
}

Result<PublishedModel> Versions::change_notes(uint64_t version, const NotesChange& change) {
  const std::lock_guard lock(mutex_);
  State s = state_;
  const auto it = std::ranges::find(s.all, version, &PublishedModel::version);
  if (it == s.all.end()) throw Error("there is no version ", version);
  it->notes = changed_notes(it->notes, change);
  PublishedModel model = *it;
  if (const Status kept = keep(std::move(s)); !kept.ok()) return kept;
  return model;
}

std::optional<uint64_t> Versions::in_force_before(std::string_view task) const {
  const std::lock_guard lock(mutex_);
  const auto it = state_.tasks.find(task);
  const size_t n = it == state_.tasks.end() ? 0 : it->second.promotions.size();
  return n < 2 ? std::nullopt : std::optional(it->second.promotions[n - 2]);
}

Result<PublishedModel> Versions::roll_back(std::string_view name) {
  const std::lock_guard lock(mutex_);
  State s = state_;
  const auto found_task = s.tasks.find(name);
  if (found_task == s.tasks.end() || found_task->second.promotions.empty()) {
    throw Error("no version", of_task(name), " is in force");
  }
  Task& task = found_task->second;
  const uint64_t now = task.promotions.back();
  task.promotions.pop_back();
  if (task.promotions.empty()) throw Error("nothing was in force before version ", now);
  const uint64_t before = task.promotions.back();
  const PublishedModel* found = s.find(before);
  if (!found) {
    throw Error("version ", before, ", which was in force before version ", now,
                ", was removed; ndtrain model promote takes another");
  }
  const PublishedModel model = *found;
  task.aliases[kProduction] = before;
  if (const Status kept = keep(std::move(s)); !kept.ok()) return kept;
  return model;
}

Status Versions::remove(uint64_t version) {
  for (const std::string& alias : aliases_of(version)) {
    throw Error("version ", version, " is ", alias, "; make another one that first");
  }
  const std::lock_guard lock(mutex_);
  State s = state_;
  const PublishedModel* model = s.find(version);
  if (!model) throw Error("there is no version ", version);
  const PublishedModel gone = *model;
  std::erase_if(s.all, [&](const PublishedModel& m) { return m.version == version; });
  s.drop_files(gone);
  return keep(std::move(s));
}

Status Versions::remove_task(const std::string& task, int64_t time) {
  const std::lock_guard lock(mutex_);
  State s = state_;
  const std::vector<PublishedModel> before = s.all;
  std::erase_if(s.all, [&](const PublishedModel& m) { return m.task == task; });
  for (const PublishedModel& m : before) {
    if (m.task == task) s.drop_files(m);
  }
  s.tasks.erase(task);
  s.removed[task] = {.time = time, .last = s.next - 1};
  return keep(std::move(s));
}

std::map<std::string, RemovedTask> Versions::removed_tasks() const {
  const std::lock_guard lock(mutex_);
  return {state_.removed.begin(), state_.removed.end()};
}

std::optional<RemovedTask> Versions::removed(std::string_view task) const {
  const std::lock_guard lock(mutex_);
  const auto it = state_.removed.find(task);
  return it == state_.removed.end() ? std::nullopt : std::optional(it->second);
}

bool Versions::is_gone(std::string_view task) const {
  const std::lock_guard lock(mutex_);
  return state_.removed.contains(task) && !state_.tasks.contains(task);
}

Status Versions::labels_are_gone(const std::string& task) {
  const std::lock_guard lock(mutex_);
  State s = state_;
  s.removed.at(task).labels = false;
  return keep(std::move(s));
}

std::vector<Digest> Versions::garbage() const {
  const std::lock_guard lock(mutex_);
  return state_.garbage;
}

Status Versions::forget_garbage(std::span<const Digest> removed) {
  const std::lock_guard lock(mutex_);
  State s = state_;
  std::erase_if(s.garbage,
                [&](const Digest& d) { return std::ranges::find(removed, d) != removed.end(); });
  return s.garbage.size() == state_.garbage.size() ? Status() : keep(std::move(s));
}

}  // namespace ndtrain::tuner
