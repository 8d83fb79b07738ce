#include "tuner/drained_stores.h"

#include <nlohmann/json.hpp>

#include "framework/core/publish.h"

namespace ndtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

}  // namespace

DrainedStores::DrainedStores(Fs& fs, std::string path) : fs_(fs), path_(std::move(path)) {
  const Result<std::string> text = fs_.read(path_);
  if (text.status().code() == Code::kNotFound) return;
  text.status().or_throw();
  try {
    const Json json = Json::parse(*text);
    if (json.at("format") != kFormat) {
      throw Error("has format ", json.at("format").dump(), "; this program reads ", kFormat);
    }
    names_ = json.at("stores").get<std::set<std::string>>();
  } catch (const std::exception& e) {
    throw Error(path_, ": ", e.what());
  }
}

Status DrainedStores::set(const std::string& store, bool drained) {
  if (names_.contains(store) == drained) return {};
  std::set<std::string> names = names_;
  drained ? void(names.insert(store)) : void(names.erase(store));
  const Json json = {{"format", kFormat}, {"stores", names}};
  if (const Status s = publish(fs_, path_, json.dump() + "\n"); !s.ok()) return s;
  names_ = std::move(names);
  return {};
}

}  // namespace ndtrain
