#include "ndp/labels/label_json.h"

#include "ndp/labels/agreement.h"

namespace ndtrain::ndp {
namespace {

Json counts(const std::vector<std::pair<std::string, int64_t>>& by_name) {
  Json::object_t json;
  // Names are distinct; asking a Json for each would take the square of their number.
  for (const auto& [name, n] : by_name) json.emplace_back(name, n);
  return json;
}

}  // namespace

Json version_json(std::optional<int64_t> number, const Digest& content) {
  return {{"version", number ? Json(*number) : Json(content_prefix(content))},
          {"content", to_hex(content)}};
}

Json to_json(const LabelRow& r) {
  Json j;
  if (!r.path.empty()) j["path"] = r.path;
  j["label"] = r.class_name;
  if (r.score) j["score"] = *r.score;
  j["source"] = name_of(r.source);
  if (r.version_content) j.update(version_json(r.version_number, *r.version_content));
  j["time"] = r.time;
  if (!r.store.empty()) j["store"] = r.store;
  if (r.at_random) j["at_random"] = true;
  if (r.withdrawn) j["withdrawn"] = true;
  return j;
}

Json to_json(const LabelStats& s) {
  return {{"photos", s.photos},
          {"labelled", s.labelled},
          {"stale", s.stale},
          {"by_source", counts(s.by_source)},
          {"by_class", counts(s.by_class)}};
}

Json to_json(const LabelDiff& d) {
  Json json = {{"same", d.same},
               {"changed", d.changed},
               {"only_from", d.only_from},
               {"only_to", d.only_to},
               {"changes", Json::array()}};
  for (const LabelChange& c : d.changes) {
    json["changes"].push_back({{"from", c.from}, {"to", c.to}, {"photos", c.photos}});
  }
  return json;
}

Json to_json(const Agreement& a) {
  Json json = {{"photos", a.photos}, {"agree", a.agree}};
  if (a.photos == 0) return json;
  const Interval i = wilson_interval(a);
  json["accuracy"] = static_cast<double>(a.agree) / static_cast<double>(a.photos);
  json["low"] = i.low;
  json["high"] = i.high;
  return json;
}

Json to_json(const FieldAccuracy& a) {
  return {{"truths", a.truths}, {"at_random", to_json(a.at_random)}, {"all", to_json(a.all)}};
}

}  // namespace ndtrain::ndp
