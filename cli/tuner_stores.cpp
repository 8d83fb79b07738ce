#include "cli/tuner_stores.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "framework/core/json.h"
#include "ndp/labels/label_db.h"

namespace ndtrain::cli {

TunerStores stores_known_to(const TunerClient& tuner, const std::string& collection) {
  TunerStores known{.asked = true};
  for (const Json& store : tuner.get("/stores")) {
    if (store["drained"].get<bool>()) continue;
    if (store.value("collection", std::string(kDefaultCollection)) != collection) continue;
    ++known.number;
    known.photos += store["photos"].get<double>();
    const Json link = store.value("link", Json());  // an older Tuner does not say it
    if (!link.is_object()) continue;
    const auto up = link["up"].get<double>();
    const auto measured = link["measured"].get<int64_t>();
    known.links[store["store"]] = up;
    known.fastest = std::max(known.fastest, up);
    known.slowest = known.slowest == 0 ? up : std::min(known.slowest, up);
    known.measured = known.measured == 0 ? measured : std::min(known.measured, measured);
  }
  return known;
}

TunerStores stores_measured_by(const TunerClient& tuner, const std::string& collection) {
  constexpr std::chrono::milliseconds kLook{200};
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  TunerStores known = stores_known_to(tuner, collection);
  while (known.number > 0 && known.measured == 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kLook);
    known = stores_known_to(tuner, collection);
  }
  return known;
}

tuner::StoreCover cover_in(const Json& plan, const TunerStores& known, tuner::PlanInputs& inputs) {
  if (!plan.contains("enough")) return {};
  for (const auto& [cut, photos] : plan["kept"].items()) {
    inputs.kept[cut.empty() ? inputs.costs.cuts.back().name : cut] = photos.get<double>();
  }
  const auto stores = plan["by_need"].get<std::vector<std::string>>();
  inputs.links.clear();
  for (const std::string& name : stores) {
    const auto link = known.links.find(name);
    inputs.links.push_back(link == known.links.end() ? 0 : link->second);
  }
  return {.stores = stores,
          .enough = plan["enough"].get<size_t>(),
          .photos = plan.value("photos_by_need", std::vector<double>()),
          .speeds = plan.value("speeds_by_need", std::vector<double>()),
          .distinct = plan.value("distinct_photos", 0.0)};
}

}  // namespace ndtrain::cli
