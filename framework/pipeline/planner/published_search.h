// AshPipe's partitioner. Over closed sets k < j of nodes, inputs left out, with
//   C = max(sum(forward + backward) + copy, load), F = sum forward,
//   A = activations of what is not in place, P = parameters,
//   O = activations of the set's maximal nodes, 0 for the last set,
// a stage has the nodes between them on m units of u devices, q = m u of them, but q = 1 for m = 1:
//   T = C_j - C_k, f, a and p likewise, versions V = round((C_end - C_j) / (C_end / devices)) + 1
//   fits: V (a/q + p) + p <= memory, else with recompute (V + 1) p + a/q <= memory
//   m = 1: T, or above the inner level that level's optimum, + O_k/bw + O_j/bw
//   m > 1: (T + 2p/all_reduce_bw g)/q + (O_k + O_j)/bw, divided by m if fully connected;
//          g is 1 if so, else q - 1
//   where O_j/bw is at least f/q with recompute; for m = 1 the inner level alone looks at memory.
//   best(i, j, m) = min(stage(i, j, m), min over k, r of max(best(i, k, m - r), stage(k, j, r)))
// The first of equals stays, k and r rising. The inner level's optimum takes all of its units.
#pragma once

#include "framework/pipeline/planner/closed_sets.h"
#include "framework/pipeline/planner/computed_nodes.h"
#include "framework/pipeline/planner/planner.h"

namespace ndtrain {

// `sets` are of `nodes`, which are of a mini-batch of the profile's size. Throws Error where no
// plan fits.
PipelinePlan published_plan(const ComputedNodes& nodes, const ClosedSets& sets,
                            const Topology& topology, const PipelinePlanOptions& options);

}  // namespace ndtrain
