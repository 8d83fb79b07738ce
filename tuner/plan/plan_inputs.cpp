#include "tuner/plan/plan_inputs.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>
#include <string_view>
#include <utility>

#include "framework/core/error.h"

namespace ndtrain::tuner {
namespace {

void demand(bool holds, std::string_view what, double value, std::string_view rule) {
  if (!holds || !std::isfinite(value)) throw Error("plan: ", what, " is ", value, "; ", rule);
}

void validate(const Machine& m, const std::string& who) {
  demand(m.cores > 0, who + "'s cores", m.cores, "it must be above 0");
  demand(m.core_speed > 0, who + "'s core_speed", m.core_speed, "it must be above 0");
  demand(m.accelerators >= 0, who + "'s accelerators", m.accelerators, "it must not be negative");
  demand(m.accelerator_speed > 0, who + "'s accelerator_speed", m.accelerator_speed,
         "it must be above 0");
  for (const auto& [name, value] :
       {std::pair("dollars_per_hour", m.dollars_per_hour), std::pair("busy_watts", m.busy_watts),
        std::pair("idle_watts", m.idle_watts)}) {
    demand(value >= 0, who + "'s " + name, value, "it must not be negative");
  }
}

// Seconds of the network are of an accelerator or of a core, for all who run it.
void validate_accelerators(const PlanCosts& c) {
  const bool tuner = c.tuner.accelerators > 0;
  const bool plain = c.plain_tuner ? c.plain_tuner->accelerators > 0 : tuner;
  if ((c.store.accelerators > 0) == tuner && tuner == plain) return;
  throw Error(
      "plan: some machines that run the network have accelerators and some have none, but its "
      "seconds are of one kind; give all of store, tuner and plain_tuner accelerators, or none");
}

}  // namespace

void validate(const PlanInputs& in) {
  const PlanCosts& c = in.costs;
  validate(c.store, "store");
  validate(c.tuner, "tuner");
  if (c.plain_store) validate(*c.plain_store, "plain_store");
  if (c.plain_tuner) validate(*c.plain_tuner, "plain_tuner");
  validate_accelerators(c);
  const PhotoCosts& p = c.photo;
  for (const double v :
       {p.bytes, p.crop_bytes, p.compressed_crop_bytes, p.prepare_s, p.crop_s, p.normalise_s,
        p.compress_s, p.decompress_s, c.setup_s, c.plans_s, c.epoch_s, c.finish_s}) {
    demand(v >= 0, "a cost of a photo", v, "it must not be negative");
  }
  demand(p.bytes > 0, "bytes of a photo", p.bytes, "it must be above 0");
  if (c.cuts.empty()) throw Error("plan: there is no cut");
  for (const CutCost& cut : c.cuts) {
    for (const double v : {cut.feature_bytes, cut.extractor_bytes, cut.head_bytes, cut.extract_s,
                           cut.train_s, cut.evaluate_s}) {
      demand(v >= 0, "a cost of the cut " + cut.name, v, "it must not be negative");
    }
    if (cut.feature_bytes == 0) throw Error("plan: the cut ", cut.name, ": ", kNothingFrozen);
  }
  demand(in.photos >= 1, "the number of photos", in.photos, "it must be at least 1");
  demand(in.val_split >= 0 && in.val_split < 1, "val_split", in.val_split,
         "it must be from 0 to below 1");
  demand(in.epochs >= 1, "the number of epochs", in.epochs, "it must be at least 1");
  demand(in.views >= 0, "the number of views", in.views, "it must not be negative");
  demand(in.bandwidth > 0, "the bandwidth", in.bandwidth, "it must be above 0");
  demand(in.store_bandwidth >= 0, "a store's bandwidth", in.store_bandwidth,
         "it must not be negative");
  demand(in.disk >= 0, "the Tuner's disk", in.disk, "it must not be negative");
  for (const auto& [cut, n] : in.kept) {
    demand(n >= 0, "the number of features that are kept of the cut " + cut, n,
           "it must not be negative");
  }
  for (const int n : in.stores) demand(n >= 1, "a number of stores", n, "it must be at least 1");
  for (const int n : in.runs) demand(n >= 1, "a number of runs", n, "it must be at least 1");
  if (in.stores.empty() || in.runs.empty()) throw Error("plan: no store count or number of runs");
  const int most = *std::ranges::max_element(in.stores);
  for (const auto& [what, of_each] :
       {std::pair("share", &in.shares), std::pair("photo", &in.held),
        std::pair("speed", &in.speeds), std::pair("link", &in.links)}) {
    const bool may_be_zero = of_each == &in.links;
    for (const double v : *of_each) {
      demand(may_be_zero ? v >= 0 : v > 0, std::string("a store's ") + what, v,
             may_be_zero ? "it must not be negative" : "it must be above 0");
    }
    if (of_each->empty() || of_each->size() == static_cast<size_t>(most)) continue;
    throw Error("plan: ", of_each->size(), " ", what, "s for ", most, " stores");
  }
}

namespace {

// All work until all photos are made; who holds the fewest for its speed is through with them
// first, and what is left is for the others.
std::vector<double> made_of_held(const PlanInputs& in, int stores) {
  std::vector<double> made(in.held.begin(), in.held.begin() + stores);
  if (std::accumulate(made.begin(), made.end(), 0.0) <= in.photos) return made;  // none is twice
  std::vector<int> order(made.size());
  std::iota(order.begin(), order.end(), 0);
  const auto seconds = [&](int s) { return made[static_cast<size_t>(s)] / speed_of(in, s); };
  std::ranges::sort(order, {}, seconds);
  double left = in.photos, speed = 0;
  for (const int s : order) speed += speed_of(in, s);
  for (const int s : order) {
    double& mine = made[static_cast<size_t>(s)];
    mine = std::min(mine, left * speed_of(in, s) / speed);
    left -= mine;
    speed -= speed_of(in, s);
  }
  return made;
}

}  // namespace

std::vector<double> shares_by_photos(std::vector<double> photos, int stores) {
  if (photos.size() < static_cast<size_t>(stores)) return {};
  photos.resize(static_cast<size_t>(stores));
  for (double& n : photos) n = std::max(n, 1.0);
  return photos;
}

double speed_of(const PlanInputs& in, int store) {
  const auto s = static_cast<size_t>(store);
  return s < in.speeds.size() ? in.speeds[s] : 1;
}

double link_of(const PlanInputs& in, int store) {
  const auto s = static_cast<size_t>(store);
  return s < in.links.size() && in.links[s] > 0 ? in.links[s] : in.store_bandwidth;
}

std::vector<double> shares_of(const PlanInputs& in, int stores) {
  std::vector<double> shares = in.shares;
  if (shares.empty() && in.held.size() >= static_cast<size_t>(stores)) {
    shares = made_of_held(in, stores);
  }
  shares.resize(static_cast<size_t>(stores), 1);
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& s : shares) s /= all;
  return shares;
}

}  // namespace ndtrain::tuner
