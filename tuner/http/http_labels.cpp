#include "tuner/http/http_labels.h"

#include <charconv>
#include <cmath>
#include <map>

#include "framework/core/json.h"
#include "framework/core/json_input.h"
#include "ndp/labels/label_json.h"
#include "tuner/http/http_answer.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr int64_t kRows = 100, kMostRows = 1000;
constexpr int64_t kLabelBody = 4096;

// What the database says no to.
struct Refused {
  Status why;
};

template <typename T>
T got(Result<T> result) {
  if (!result.ok()) throw Refused{result.status()};
  return std::move(*result);
}

HttpResponse refused(const Status& why) {
  const int status = why.code() == Code::kNotFound ? 404 : why.code() == Code::kIo ? 503 : 500;
  return http_error(status, why.message());
}

// "": not given.
std::string text(const HttpRequest& request, const char* name, const char* otherwise = "") {
  const auto it = request.query.find(name);
  return it == request.query.end() || it->second.empty() ? otherwise : it->second;
}

template <typename T>
T number(const char* name, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isfinite(value)) return value;
    } else {
      return value;
    }
  }
  throw Error(name, "=", text, ": a number is expected");
}

template <typename T>
std::optional<T> number(const HttpRequest& request, const char* name) {
  const std::string given = text(request, name);
  return given.empty() ? std::nullopt : std::optional(number<T>(name, given));
}

int64_t count(const HttpRequest& request, const char* name) {
  const int64_t n = number<int64_t>(request, name).value_or(kRows);
  if (n >= 1 && n <= kMostRows) return n;
  throw Error(name, "=", n, ": 1 to ", kMostRows, " at a time");
}

LabelCursor cursor(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == text.npos) throw Error("after=", text, ": give what `next` was");
  return {.photo = number<int64_t>("after", text.substr(0, colon)), .path = text.substr(colon + 1)};
}

// A Tuner keeps a store's photos at STORE/path.
std::string holder_of(const std::string& path) { return path.substr(0, path.find('/')); }

}  // namespace

struct HttpLabels::Open {
  LabelDb& db;
  int64_t collection, task;
  std::map<Digest, uint64_t> versions;  // the Tuner's numbers, by content

  // A database that an earlier program filled does not have their numbers.
  Json name_of(std::optional<int64_t> number, const Digest& content) const {
    const auto it = versions.find(content);
    return version_json(it == versions.end() ? number : static_cast<int64_t>(it->second), content);
  }
};

LabelDb& HttpLabels::db() {
  const std::lock_guard lock(mutex_);
  if (!db_) db_ = got(open_label_db(url_, OpenLabelDb::kExisting));
  return *db_;
}

template <typename F>
HttpHandler HttpLabels::on(F f) {
  return [this, f](const HttpRequest& request) {
    try {
      LabelDb& labels = db();
      Open open{labels,
                got(existing_collection(labels, text(request, "collection", "default"))),
                got(existing_task(labels, text(request, "task", "default"))),
                {}};
      for (const PublishedModel& m : versions_.all()) open.versions[m.content] = m.version;
      return answer(f(open, request));
    } catch (const Refused& r) {
      return refused(r.why);
    } catch (const Error& e) {
      return http_error(400, e.what());
    }
  };
}

std::vector<HttpServer::Route> HttpLabels::routes() {
  using Request = const HttpRequest&;
  const HttpPermission see = {Role::kViewer, HttpScope::kCollection, HttpTask::kNamed};
  return {
      {"GET", "/labels", see, on([this](const Open& o, Request r) { return query(o, r); })},
      {"GET", "/labels/stats", see, on([this](const Open& o, Request) { return stats(o); })},
      {"GET", "/labels/review", see, on([this](const Open& o, Request r) { return review(o, r); })},
      {"GET", "/labels/accuracy", see,
       on([this](const Open& o, Request r) { return accuracy(o, r); })},
      {"GET", "/labels/diff", see, on([this](const Open& o, Request r) { return diff(o, r); })},
      {"GET", "/labels/confusion", see,
       on([this](const Open& o, Request r) { return confusion(o, r); })},
      {"GET", "/labels/new-photos", see,
       on([this](const Open& o, Request) { return new_photos(o); })},
      {"GET", "/labels/([0-9]{1,18})", see,
       on([this](const Open& o, Request r) { return history(o, r); })},
      {"PUT",
       "/labels/([0-9]{1,18})",
       {Role::kLabeller, HttpScope::kCollection, HttpTask::kNamed},
       on([this](const Open& o, Request r) { return set(o, r); }),
       {.most = kLabelBody},
       {"label", [this](Request r) { return label_of(r); }}},
  };
}

int64_t HttpLabels::version_named(const Open& o, const std::string& name) const {
  std::string wanted = name;
  if (!name.empty() && name.size() < 19 && name.find_first_not_of("0123456789") == name.npos) {
    const std::optional<PublishedModel> model = versions_.find(std::stoull(name));
    if (model) wanted = to_hex(model->content);
  }
  return got(existing_version(o.db, o.task, wanted)).id;
}

Json HttpLabels::row_json(const Open& o, const LabelRow& row) {
  Json json = {{"photo", row.photo}, {"id", to_hex(row.digest)}};
  json.update(to_json(row));
  if (!row.path.empty()) json["held_by"] = holder_of(row.path);
  if (row.version_content) json.update(o.name_of(row.version_number, *row.version_content));
  return json;
}

Json HttpLabels::query(const Open& o, const HttpRequest& r) const {
  LabelQuery q{.collection = o.collection, .task = o.task, .limit = count(r, "limit")};
  if (const std::string s = text(r, "label"); !s.empty()) {
    q.class_id = got(existing_class(o.db, o.task, s));
  }
  if (const std::string s = text(r, "source"); !s.empty()) {
    const auto source = label_source_named(s);
    if (!source) throw Error("source=", s, ": there are human, import, folder and model");
    q.sources = {*source};
  }
  if (const std::string s = text(r, "version"); !s.empty()) q.version = version_named(o, s);
  if (const std::string s = text(r, "store"); !s.empty()) q.store = got(existing_store(o.db, s));
  if (const std::string s = text(r, "after"); !s.empty()) q.after = cursor(s);
  q.photo = number<int64_t>(r, "photo");
  q.path = text(r, "path");
  q.min_score = number<double>(r, "min_score");
  q.max_score = number<double>(r, "max_score");
  q.since = number<int64_t>(r, "since");
  q.until = number<int64_t>(r, "until");
  q.stale = text(r, "stale", "0") != "0";
  const LabelPage page = got(o.db.query(q));
  Json json = {{"rows", Json::array()}, {"next", nullptr}};
  for (const LabelRow& row : page.rows) json["rows"].push_back(row_json(o, row));
  if (page.next) json["next"] = std::to_string(page.next->photo) + ":" + page.next->path;
  return json;
}

Json HttpLabels::stats(const Open& o) const {
  Json json = to_json(got(o.db.stats(o.collection, o.task)));
  json["classes"] = Json::array();
  for (const ClassInfo& c : got(o.db.classes(o.task))) json["classes"].push_back(c.name);
  const auto in_force = got(o.db.in_force(o.task));
  json["versions"] = Json::array();
  for (const VersionInfo& v : got(o.db.versions(o.task))) {
    Json version = o.name_of(v.number, v.content);
    version.update({{"created", v.created},
                    {"in_force", v.id == in_force},
                    {"undone", v.withdrawn.has_value()}});
    json["versions"].push_back(std::move(version));
  }
  return json;
}

Json HttpLabels::review(const Open& o, const HttpRequest& r) const {
  const uint64_t seed = number<uint64_t>(r, "seed").value_or(0);
  Json json = Json::array();
  for (const ReviewPhoto& p : got(o.db.review(o.collection, o.task, count(r, "n"), seed))) {
    Json row = {{"photo", p.photo}, {"id", to_hex(p.digest)},
                {"path", p.path},   {"held_by", holder_of(p.path)},
                {"label", p.label}, {"at_random", p.at_random}};
    if (p.score) row["score"] = *p.score;
    if (p.suggested_score) {
      row["suggested"] = p.suggested;
      row["suggested_score"] = *p.suggested_score;
    }
    json.push_back(std::move(row));
  }
  return json;
}

Json HttpLabels::accuracy(const Open& o, const HttpRequest& r) const {
  const std::string name = text(r, "version", "in-force");
  Json json = {{"version", name}};
  json.update(to_json(got(o.db.accuracy(o.collection, version_named(o, name)))));
  return json;
}

Json HttpLabels::diff(const Open& o, const HttpRequest& r) const {
  const std::string from = text(r, "from"), to = text(r, "to", "in-force");
  if (from.empty())
    throw Error("from: give the version to compare with, as in /labels/diff?from=1");
  const LabelDiff d = got(o.db.diff(o.collection, version_named(o, from), version_named(o, to)));
  Json json = {{"from", from}, {"to", to}};
  json.update(to_json(d));
  return json;
}

Json HttpLabels::confusion(const Open& o, const HttpRequest& r) const {
  const std::string name = text(r, "version", "in-force");
  Json json = {{"version", name}, {"photos", Json::array()}};
  for (const ConfusedPhotos& c : got(o.db.confusion(o.collection, version_named(o, name)))) {
    json["photos"].push_back({{"truth", c.truth}, {"said", c.said}, {"photos", c.photos}});
  }
  return json;
}

Json HttpLabels::new_photos(const Open& o) const {
  Json json = Json::array();
  for (const NewPhotos& n : got(o.db.new_photos(o.collection, o.task))) {
    json.push_back({{"day", n.day}, {"label", n.class_name}, {"photos", n.photos}});
  }
  return json;
}

// Who may see one collection does not see the others' photos by their numbers.
LabelRow HttpLabels::current(const Open& o, const HttpRequest& r) const {
  const int64_t photo = number<int64_t>("photo", r.captures.at(0));
  const LabelQuery q{
      .collection = o.collection, .task = o.task, .after = {.photo = photo}, .limit = 1};
  LabelPage page = got(o.db.query(q));
  if (!page.rows.empty() && page.rows[0].photo == photo) return std::move(page.rows[0]);
  throw Refused{{Code::kNotFound, "there is no photo " + r.captures[0] +
                                      " with a label in this collection and task"}};
}

Json HttpLabels::history(const Open& o, const HttpRequest& r) const {
  const LabelRow now = current(o, r);
  Json json = Json::array();
  for (const LabelRow& row : got(o.db.history(o.task, now.photo))) json.push_back(row_json(o, row));
  return json;
}

std::string HttpLabels::label_of(const HttpRequest& r) {
  const HttpResponse found =
      on([&](const Open& o, const HttpRequest& q) { return Json(current(o, q).class_name); })(r);
  return found.status == 200 ? parse_json(found.body).get<std::string>() : "";
}

Json HttpLabels::set(const Open& o, const HttpRequest& r) const {
  const LabelRow now = current(o, r);
  const Result<Json> said_json = read_json(r.body);
  if (said_json.status().code() == Code::kTooLarge) throw Error(said_json.status().message());
  const Json body = said_json.ok() ? *said_json : Json();
  if (!body.is_object() || !body.contains("label") || !body["label"].is_string() ||
      !body.value("at_random", Json(false)).is_boolean()) {
    throw Error(R"(say what the photo shows by {"label": "NAME"}, or {"label": "NAME", )",
                R"("at_random": true} for one that /labels/review drew at random)");
  }
  const auto label = body["label"].get<std::string>();
  if (const Status s = check_class_name(label); !s.ok()) throw Error(s.message());
  const auto classes = got(o.db.class_ids(o.task, std::vector{label}));
  const NewLabel said{.photo = now.photo,
                      .class_id = classes.at(0),
                      .time = clock_.unix_seconds(),
                      .just_now = true,
                      .at_random = body.value("at_random", false)};
  const PutReport put =
      got(o.db.put_labels({.task = o.task, .source = LabelSource::kHuman, .labels = {said}}));
  return {{"photo", said.photo}, {"label", label}, {"source", "human"}, {"added", put.added}};
}

}  // namespace ndtrain::tuner
