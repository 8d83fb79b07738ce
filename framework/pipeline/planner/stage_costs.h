// What a stage costs as measured. Seconds are those of a mini-batch in the steady state:
// - computing: forward and backward over the replicas, each of which has its share of the rows,
//   with the forward pass once more where it recomputes, and the optimizer;
// - exchange: with replicas, the step of the last micro-batch is what simulate() says of the
//   schedule "auto" for the stage's layers: gradients are summed under its backward pass and the
//   next forward pass;
// - loading: of stage 0, beside all that; the copy to the device is in front of it;
// - transfers: what comes from stages in front and what goes to those behind, once each. Delays are
//   as many as there are stages behind, so that none of it is hidden.
// Bytes are those of one device: versions of the parameters, a gradient and moments of those that
// are trained, with replicas pieces of others' sums, with several micro-batches one for the
// gradients of one of them; saved values of what is in flight, or, where it recomputes, what came
// in, and the saved values of one micro-batch; the largest workspace; and what comes in and goes
// out twice over, for activations and gradients.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "framework/parallel/cost_profile.h"
#include "framework/pipeline/planner/closed_sets.h"
#include "framework/pipeline/planner/computed_nodes.h"
#include "framework/pipeline/planner/pipeline_rules.h"
#include "framework/pipeline/planner/topology.h"

namespace ndtrain {

// Nodes of `set` that `before` has not, on these devices, with so many stages behind.
struct StagePlace {
  int before = 0, set = 0;
  DeviceGroup devices;
  int behind = 0;
};

struct OptimizerCosts {
  double seconds_per_byte = 0, moment_bytes_per_byte = 0;  // of trained parameters
};

class StageCosts {
 public:
  // Of the nodes between two sets; bytes of a mini-batch, in and out of the stage. Of the seconds
  // so many are fixed: each micro-batch takes them.
  struct Sums {
    double forward_s = 0, backward_s = 0, fixed_forward_s = 0, fixed_backward_s = 0,
           trained_bytes = 0, frozen_bytes = 0, saved_bytes = 0, in_bytes = 0, out_bytes = 0;
    // The node that works in most, and the one most of which is fixed: of few rows it is that one.
    const NodeProfile *largest = nullptr, *most_fixed = nullptr;
    double workspace_bytes(double share) const;
  };
  struct After {
    int set;
    Sums sums;
  };
  struct Stage {
    double seconds = 0, bytes = 0;
    bool recompute = false;
  };

  // Borrows all but what it copies.
  StageCosts(const ComputedNodes& nodes, const ClosedSets& sets, const Topology& topology,
             const OptimizerCosts& optimizer, double activation_compression);

  // What may be a stage behind `before`.
  const std::vector<After>& after(int before) const { return after_[static_cast<size_t>(before)]; }
  const Sums& sums(int before, int set) const;

  // Of one that recomputes where it needs more than `most_bytes` without, if `may_recompute`, and
  // takes no more bytes then. An exchange that nobody has simulated counts as the least it can
  // take.
  Stage stage(const StagePlace& place, const Sums& sums, const PipelineRule& rule,
              double most_bytes, bool may_recompute) const;

  // Simulates the stage's exchange, if it has one; false where that was done before.
  bool simulate_exchange(const StagePlace& place, const PipelineRule& rule);

 private:
  Sums sums_between(int before, int set) const;
  bool exchanges(const StagePlace& place, const Sums& sums) const {
    return place.devices.count > 1 && sums.trained_bytes > 0;
  }
  CostProfile exchange_of(const StagePlace& place, const PipelineRule& rule) const;
  double step_s(const StagePlace& place, const Sums& sums, const PipelineRule& rule) const;
  double transfer_s(const StagePlace& place, const Sums& sums, const PipelineRule& rule) const;
  uint64_t key(const StagePlace& place, const PipelineRule& rule) const;

  const ComputedNodes& nodes_;
  const ClosedSets& sets_;
  const Topology& topology_;
  const OptimizerCosts optimizer_;
  const double compression_;
  std::vector<std::vector<int>> readers_;  // of nodes
  std::vector<std::vector<After>> after_;  // by set
  std::unordered_map<uint64_t, double> simulated_s_;
};

}  // namespace ndtrain
