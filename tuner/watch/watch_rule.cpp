#include "tuner/watch/watch_rule.h"

#include <cmath>
#include <sstream>

#include "framework/core/json.h"
#include "framework/core/limits.h"
#include "ndp/jobs/toml.h"

namespace ndtrain::tuner {
namespace {

constexpr double kAges = 1e9;  // seconds

template <typename T>
void take(Json& json, const char* key, T& to) {
  const auto it = json.find(key);
  if (it == json.end()) return;
  const bool fits = std::is_same_v<T, double>    ? it->is_number()
                    : std::is_same_v<T, int64_t> ? it->is_number_integer()
                    : std::is_same_v<T, bool>    ? it->is_boolean()
                                                 : it->is_string();
  if (!fits) throw Error("rule: ", key, " ", json_text(*it), " is of the wrong kind");
  to = it->get<T>();
  json.erase(it);
}

void demand(bool ok, const char* key, const auto& value, const char* what) {
  if (!ok) throw Error("rule: ", key, " ", value, ": ", what);
}

void validate(const WatchRule& r) {
  demand(r.labels >= 1, "labels", r.labels, "at least 1");
  demand(r.score_drop > 0 && r.score_drop <= 1, "score_drop", r.score_drop, "above 0, at most 1");
  demand(r.psi > 0, "psi", r.psi, "above 0");
  demand(r.window_s >= 1 && r.window_s <= kAges, "window_s", r.window_s, "from 1 to 1e9 seconds");
  demand(r.window_photos >= 1, "window_photos", r.window_photos, "at least 1");
  demand(r.min_interval_s >= 0 && r.min_interval_s <= kAges, "min_interval_s", r.min_interval_s,
         "from 0 to 1e9 seconds");
  demand(r.missing >= 0, "missing", r.missing, "a number of photos, or 0 for never");
  demand(r.missing_share >= 0 && r.missing_share <= 1, "missing_share", r.missing_share,
         "from 0, for never, to 1");
  demand(r.every_s > 0 && r.every_s <= kAges, "every_s", r.every_s, "above 0, to 1e9 seconds");
}

JobSpec job_of(const Json& json) {
  if (!json.is_object()) throw Error("rule: job ", json_text(json), " is no table");
  if (json.contains("model")) {
    throw Error(
        "rule: job names a model; it starts from the version in force, and before there is "
        "one from the rule's own 'model', a file");
  }
  JobSpec spec = parse_job_spec(json_text(json));
  if (spec.kind != JobKind::kFinetune) throw Error("rule: the job is to be a finetune");
  return spec;
}

}  // namespace

WatchRule parse_watch_rule(std::string_view text) {
  Json json = try_parse_json(text);
  if (!json.is_object()) throw Error("rule: not a JSON object");
  WatchRule r;
  take(json, "labels", r.labels);
  take(json, "score_drop", r.score_drop);
  take(json, "psi", r.psi);
  take(json, "window_s", r.window_s);
  take(json, "window_photos", r.window_photos);
  take(json, "min_interval_s", r.min_interval_s);
  take(json, "every_s", r.every_s);
  take(json, "relabel", r.relabel);
  take(json, "missing", r.missing);
  take(json, "missing_share", r.missing_share);
  take(json, "model", r.model);
  const auto job = json.find("job");
  r.job = job_of(job == json.end() ? Json::object() : *job);
  json.erase("job");
  if (!json.empty()) throw Error("rule: unknown key '", json.begin().key(), "'");
  validate(r);
  return r;
}

std::string WatchRule::text() const {
  const Json json = {{"labels", labels},
                     {"score_drop", score_drop},
                     {"psi", psi},
                     {"window_s", window_s},
                     {"window_photos", window_photos},
                     {"min_interval_s", min_interval_s},
                     {"every_s", every_s},
                     {"relabel", relabel},
                     {"missing", missing},
                     {"missing_share", missing_share},
                     {"model", model},
                     {"job", parse_json(job.text())}};
  return json_text(json);
}

WatchRule load_watch_rule(Fs& fs, const std::string& path) {
  const std::string text = fs.read(path, limits::kMessage).or_throw();
  try {
    if (path.ends_with(".json")) return parse_watch_rule(text);
    if (!path.ends_with(".toml")) throw Error("a rule is a .toml or a .json file");
    std::ostringstream json;
    json << toml::json_formatter(ndp::parse_toml(text));
    return parse_watch_rule(json.str());
  } catch (const Error& e) {
    throw Error(path, ": ", e.what());
  }
}

}  // namespace ndtrain::tuner
