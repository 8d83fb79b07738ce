#include "tests/parallel/random_costs.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace ndtrain::testing {
namespace {

using Kind = PlannedOp::Kind;

double logarithmic(Rng& rng, double low, double high) {
  return low * std::pow(high / low, rng.next_uniform());
}

double sometimes_none(Rng& rng, double value) { return rng.next_below(5) == 0 ? 0 : value; }

CostProfile::Collective random_collective(Rng& rng) {
  return {.alpha_s = sometimes_none(rng, logarithmic(rng, 1e-6, 1e-2)),
          .beta_s_per_byte = logarithmic(rng, 1e-10, 1e-8)};
}

std::vector<ParameterRange> random_buckets(int64_t elements, Rng& rng) {
  std::vector<ParameterRange> buckets;
  for (int64_t end = elements; end > 0;) {
    const auto size = static_cast<int64_t>(logarithmic(rng, 1, static_cast<double>(elements)));
    const int64_t begin = std::max<int64_t>(0, end - std::max<int64_t>(1, size));
    buckets.push_back({buckets.size() < 30 ? begin : 0, end});
    end = buckets.back().begin;
  }
  return buckets;
}

}  // namespace

CostProfile random_costs(uint64_t seed, int most_layers) {
  Rng rng(seed, "network");
  CostProfile costs{.source = "random", .ranks = 1 + static_cast<int>(rng.next_below(8))};
  const uint64_t layers = 1 + rng.next_below(static_cast<uint64_t>(most_layers));
  for (uint64_t l = 0; l < layers; ++l) {
    const bool has_none = l > 0 && rng.next_below(8) == 0;
    costs.layers.push_back(
        {.elements = has_none ? 0 : static_cast<int64_t>(logarithmic(rng, 1, 1e7)),
         .forward_s = sometimes_none(rng, logarithmic(rng, 1e-6, 1e-2)),
         .backward_s = sometimes_none(rng, logarithmic(rng, 1e-6, 1e-2))});
  }
  for (CostProfile::Collective* c : {&costs.reduce_scatter, &costs.all_gather, &costs.all_reduce,
                                     &costs.reduce, &costs.broadcast}) {
    *c = random_collective(rng);
  }
  costs.optimizer_s_per_element = sometimes_none(rng, logarithmic(rng, 1e-11, 1e-9));
  return costs;
}

CostProfile network(const std::vector<CostProfile::Layer>& layers, double alpha_s,
                    double beta_s_per_byte) {
  const CostProfile::Collective whole{alpha_s, beta_s_per_byte};
  const CostProfile::Collective half{alpha_s / 2, beta_s_per_byte / 2};
  return {.source = "test",
          .ranks = 2,
          .layers = layers,
          .reduce_scatter = half,
          .all_gather = half,
          .all_reduce = whole,
          .reduce = whole,
          .broadcast = whole};
}

CommPlan random_plan(const CostProfile& costs, Rng& rng) {
  CommPlan plan{.buckets = random_buckets(costs.parameter_count(), rng),
                .update_late = rng.next_below(2) == 0};
  plan.shard_optimizer = rng.next_below(4) == 0;
  const std::vector<int64_t> order =
      permutation(static_cast<int64_t>(plan.buckets.size()), Rng(rng.next_bits()));
  size_t next = 0;
  std::vector<PlannedOp> open;  // second halves that may stand anywhere from here
  std::set<int> in_call;
  while (next < order.size() || !open.empty()) {
    PlannedOp op{};
    if (next < order.size() && (open.empty() || rng.next_below(2) == 0)) {
      op.bucket = static_cast<int>(order[next++]);
      const uint64_t how = plan.shard_optimizer ? 1 : rng.next_below(3);
      op.kind = how == 0 ? Kind::kAllReduce : how == 1 ? Kind::kReduceScatter : Kind::kReduce;
      if (how == 1) open.push_back({Kind::kAllGather, op.bucket});
      if (how == 2) open.push_back({Kind::kBroadcast, op.bucket});
    } else {
      const size_t at = rng.next_below(open.size());
      op = open[at];
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
    }
    op.with_previous = !plan.ops.empty() && !in_call.contains(op.bucket) && rng.next_below(4) == 0;
    if (!op.with_previous) in_call.clear();
    in_call.insert(op.bucket);
    plan.ops.push_back(op);
  }
  return plan;
}

}  // namespace ndtrain::testing
