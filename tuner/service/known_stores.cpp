#include "tuner/service/known_stores.h"

#include "framework/core/checksummed_json.h"
#include "framework/core/publish.h"

namespace ndtrain::tuner {
namespace {

constexpr int kFormat = 1;

// Null when there is no such file.
Json read(Fs& fs, const std::string& path) {
  const Result<std::string> text = fs.read(path);
  if (text.status().code() == Code::kNotFound) return {};
  text.status().or_throw();
  Json json = verified(*text);
  if (json.at("format") != kFormat) {
    throw Error("has format ", json_text(json.at("format")), "; this program reads ", kFormat);
  }
  return json;
}

LinkSpeed link_in(const Json& store) {
  if (!store.contains("link")) return {};
  const Json& link = store["link"];
  return {.up = link.at("up"),
          .down = link.at("down"),
          .round_trip_s = link.at("round_trip_s"),
          .measured = link.at("measured")};
}

}  // namespace

Json to_json(const LinkSpeed& link) {
  return {{"up", link.up},
          {"down", link.down},
          {"round_trip_s", link.round_trip_s},
          {"measured", link.measured}};
}

KnownStores::KnownStores(Fs& fs, std::string directory)
    : fs_(fs), path_(join(directory, "stores.json")), older_(join(directory, "drained.json")) {
  std::string file = path_;
  try {
    Json json = read(fs_, path_);
    if (!json.is_null()) {
      for (const auto& [name, s] : json.at("stores").items()) {
        stores_[name] = {.photos = s.at("photos"),
                         .last_seen = s.at("last_seen"),
                         .deletions = s.at("deletions"),
                         .drained = s.at("drained"),
                         .collection = s.value("collection", std::string(ndp::kDefaultCollection)),
                         .link = link_in(s),
                         .wrong_features = s.value("wrong_features", std::string())};
      }
      return;
    }
    file = older_;
    json = read(fs_, older_);
    if (json.is_null()) return;
    for (const Json& name : json.at("stores")) {
      stores_[name.get<std::string>()] = {.drained = true};
    }
  } catch (const std::exception& e) {
    throw Error(file, ": ", e.what());
  }
}

Status KnownStores::put(const std::string& name, const KnownStore& store) {
  const auto it = stores_.find(name);
  if (it != stores_.end() && it->second == store) return write();
  std::map<std::string, KnownStore> stores = stores_;
  stores[name] = store;
  return keep(std::move(stores));
}

Status KnownStores::forget(const std::string& name) {
  std::map<std::string, KnownStore> stores = stores_;
  return stores.erase(name) == 0 ? Status() : keep(std::move(stores));
}

void KnownStores::note(const std::string& name, const KnownStore& store) {
  const auto [known, is_new] = stores_.try_emplace(name);
  if (!is_new && known->second == store) return;
  known->second = store;
  noted_ = true;
}

Status KnownStores::write() { return noted_ ? keep(stores_) : Status(); }

Status KnownStores::keep(std::map<std::string, KnownStore> stores) {
  Json json = {{"format", kFormat}, {"stores", Json::object()}};
  for (const auto& [name, s] : stores) {
    json["stores"][name] = {{"photos", s.photos},
                            {"last_seen", s.last_seen},
                            {"deletions", s.deletions},
                            {"drained", s.drained},
                            {"collection", s.collection}};
    if (!s.wrong_features.empty()) json["stores"][name]["wrong_features"] = s.wrong_features;
    if (s.link.measured != 0) json["stores"][name]["link"] = to_json(s.link);
  }
  if (const Status s = publish(fs_, path_, checksummed(std::move(json))); !s.ok()) return s;
  stores_ = std::move(stores);
  noted_ = false;
  return {};
}

}  // namespace ndtrain::tuner
