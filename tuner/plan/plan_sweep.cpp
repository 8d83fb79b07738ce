#include "tuner/plan/plan_sweep.h"

#include <algorithm>

#include "framework/core/error.h"

namespace ndtrain::tuner {
namespace {

// "cuts/3/train_s" is "cuts/*/train_s": cuts are guessed by one rule.
std::string family(const std::string& path) {
  if (!path.starts_with("cuts/")) return path;
  return "cuts/*" + path.substr(path.find('/', 5));
}

SweepPoint with(Profile profile, const std::string& input, double factor) {
  for (const NamedInput& each : named_inputs(profile)) {
    const auto source = profile.sources.find(each.path);
    const bool assumed = source != profile.sources.end() && is_assumed(source->second);
    if (assumed && family(each.path) == input) *each.value *= factor;
  }
  // A share of the photos cannot be doubled beyond all of them.
  profile.inputs.val_split = std::min(profile.inputs.val_split, 0.99);
  return compare(profile.inputs);
}

}  // namespace

SweepPoint compare(const PlanInputs& inputs) {
  if (inputs.stores.size() != 1) throw Error("plan: a comparison is of one store count");
  std::vector<Prediction> near, far;
  for (const Prediction& p : predict_all(inputs)) {
    (p.mode == JobMode::kNdpipe ? near : far).push_back(p);
  }
  SweepPoint point{.stores = inputs.stores[0], .bandwidth = inputs.bandwidth};
  point.ndpipe = best(near);
  point.other = best(far);
  point.faster = point.other.time.makespan_s / point.ndpipe.time.makespan_s;
  if (point.other.dollars && point.ndpipe.dollars) {
    point.cheaper = *point.other.dollars / *point.ndpipe.dollars;
  }
  return point;
}

std::vector<SweepPoint> sweep(const PlanInputs& inputs, std::span<const int> stores,
                              std::span<const double> bandwidths) {
  std::vector<SweepPoint> points;
  PlanInputs in = inputs;
  for (const double bandwidth : bandwidths) {
    in.bandwidth = bandwidth;
    for (const int n : stores) {
      in.stores = {n};
      points.push_back(compare(in));
    }
  }
  return points;
}

std::vector<Sensitivity> sensitivities(const Profile& profile) {
  std::vector<std::string> inputs;
  Profile p = profile;
  for (const NamedInput& each : named_inputs(p)) {
    const auto source = p.sources.find(each.path);
    if (source == p.sources.end() || !is_assumed(source->second) || *each.value == 0) continue;
    const std::string name = family(each.path);
    if (std::ranges::find(inputs, name) == inputs.end()) inputs.push_back(name);
  }
  std::vector<Sensitivity> all;
  for (const std::string& input : inputs) {
    all.push_back({input, with(profile, input, 0.5), with(profile, input, 2)});
  }
  return all;
}

}  // namespace ndtrain::tuner
