// Near-data against the other ways of doing the same job, over store counts and bandwidths: where
// it pays, and which guesses that depends on. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tuner/plan/plan_profile.h"
#include "tuner/plan/planner.h"

namespace ndtrain::tuner {

struct SweepPoint {
  int stores = 0;
  double bandwidth = 0;      // bytes/s
  Prediction ndpipe, other;  // the fastest of each; the other is not ideal
  double faster = 0;         // other's time over ndpipe's
  double cheaper = 0;        // other's cost over ndpipe's; 0: unknown
};

// By bandwidth, then store count. `inputs.runs` may be several. Throws Error when nothing is
// frozen.
std::vector<SweepPoint> sweep(const PlanInputs& inputs, std::span<const int> stores,
                              std::span<const double> bandwidths);
SweepPoint compare(const PlanInputs& inputs);  // at its one store count and bandwidth

// What becomes of a comparison when one assumed input is half or twice as large.
struct Sensitivity {
  std::string input;  // its path; of cuts, all cuts' alike: "cuts/*/train_s"
  SweepPoint half, twice;
};
std::vector<Sensitivity> sensitivities(const Profile& profile);

}  // namespace ndtrain::tuner
