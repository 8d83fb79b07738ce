#include "cli/tuner_stores.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "framework/core/json.h"

namespace ndtrain::cli {

TunerStores stores_known_to(const TunerClient& tuner) {
  TunerStores known{.asked = true};
  for (const Json& store : tuner.get("/stores")) {
    if (store["drained"].get<bool>()) continue;
    ++known.number;
    known.photos_of_each.push_back(store["photos"].get<double>());
    known.photos += known.photos_of_each.back();
    const Json link = store.value("link", Json());  // an older Tuner does not say it
    if (!link.is_object()) continue;
    const auto up = link["up"].get<double>();
    const auto measured = link["measured"].get<int64_t>();
    known.fastest = std::max(known.fastest, up);
    known.slowest = known.slowest == 0 ? up : std::min(known.slowest, up);
    known.measured = known.measured == 0 ? measured : std::min(known.measured, measured);
  }
  return known;
}

TunerStores stores_measured_by(const TunerClient& tuner) {
  constexpr std::chrono::milliseconds kLook{200};
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  TunerStores known = stores_known_to(tuner);
  while (known.number > 0 && known.measured == 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kLook);
    known = stores_known_to(tuner);
  }
  return known;
}

}  // namespace ndtrain::cli
