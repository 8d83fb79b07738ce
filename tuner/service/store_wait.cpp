#include "tuner/service/store_wait.h"

#include <algorithm>
#include <utility>

namespace ndtrain::tuner {
using namespace ndp;

namespace {

// Who is only slower than others is not worth a line. From one line to the next.
constexpr StoreWait::Time kSayAfter = std::chrono::seconds(2);
constexpr StoreWait::Time kSayEvery = std::chrono::seconds(5);
constexpr int kShareOfWait = 8;

std::string names_of(const StoreChoice& c) {
  std::string all;
  for (const UnavailableStore& s : c.waits_for) all += s.name + " ";
  return all + std::to_string(c.strangers) + (c.take.empty() ? "" : "+");
}

}  // namespace

bool StoreWait::wait(Time now, StoreChoice choice) {
  choice_ = std::move(choice);
  if (said_.empty()) since_ = now;
  said_ = "waits for " + choice_.text();
  if (now < since_ + kSayAfter) return false;
  const std::string of = names_of(choice_);
  if (of == said_of_ && now < say_at_) return false;
  said_of_ = of;
  say_at_ = now + std::max(kSayEvery, (now - since_) / kShareOfWait);
  return true;
}

std::vector<StoreStatus> standing(const StoreRegistry& stores, const JobSpec& spec,
                                  const std::vector<std::string>& ready) {
  std::vector<StoreStatus> all;
  for (const auto& [name, s] : stores.all()) {
    if (s.collection != spec.collection) continue;
    all.push_back({.name = name,
                   .photos = s.photos,
                   .here = s.here,
                   .drained = s.drained,
                   .ready = std::ranges::binary_search(ready, name),
                   .away = s.away});
  }
  return all;
}

std::string objection(const JobSpec& spec, const StoreChoice& choice, const StoreRegistry& stores) {
  if (spec.deterministic && !choice.left_out.empty()) {
    return "not all stores take part, on which a deterministic result depends: without " +
           text_of(choice.left_out) +
           "; bring them here, ndtrain store forget those that are gone for good, or name those "
           "meant with --stores";
  }
  const bool known = std::ranges::any_of(
      spec.stores.names, [&](const std::string& name) { return stores.all().contains(name); });
  if (spec.stores.names.empty() || known) return "";
  return "none of its stores is known any more: " + text_of(choice.left_out);
}

}  // namespace ndtrain::tuner
