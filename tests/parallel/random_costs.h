// Networks and plans of all shapes, a function of the seed.
#pragma once

#include "framework/core/rng.h"
#include "framework/parallel/comm_plan.h"
#include "framework/parallel/cost_profile.h"

namespace ndtrain::testing {

// 1 to `most_layers` layers; some have no elements, some times are 0, and some latencies.
CostProfile random_costs(uint64_t seed, int most_layers);

// Single layers, forward order; the same costs for all collectives but halves, which have half.
CostProfile network(const std::vector<CostProfile::Layer>& layers, double alpha_s,
                    double beta_s_per_byte);

// Buckets that cut anywhere, sums of all kinds, second halves anywhere behind the first, grouped
// calls where they may be.
CommPlan random_plan(const CostProfile& costs, Rng& rng);

}  // namespace ndtrain::testing
