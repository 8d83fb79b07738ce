// Networks whose steps are replayed, made small enough for this machine's processors: bytes
// divided, times multiplied, and the link in proportion, so that all ratios are the network's.
#pragma once

#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "framework/parallel/comm_plan.h"
#include "framework/parallel/cost_profile.h"

namespace ndtrain {

struct ReplayNetwork {
  std::string name;
  CostProfile costs;
};

// Of a cost profile (cost_profile_json.h), which is one network named as the file, or of published
// networks, whose collectives are alpha_s + beta_s_per_element x elements for an all-reduce, half
// of it for each half:
//   {"networks": {"vgg16": {"layers_elements_backward_s_forward_s": [[1792, 2.9e-2, 2.3e-6], …],
//                           "alpha_s": 1.3e-3, "beta_s_per_element": 2.4e-10, …}, …}}
// Sorted by name. Throws Error naming the file and the entry.
std::vector<ReplayNetwork> load_replay_networks(Fs& fs, const std::string& file);

// A rank's link to all the others together.
struct ReplayLink {
  double latency_s = 0, bytes_per_s = 0;  // 0: unlimited
};

// Ranks that have shards [first_shards[r], first_shards[r + 1]).
int ranks_of(const std::vector<int>& first_shards);
// Bytes that the busiest rank sends in an all-reduce of `elements`, each rank straight to each.
double sent_bytes(const std::vector<int>& first_shards, int64_t elements);

// What collectives cost there, when nothing but the link costs anything.
void set_collectives(const ReplayLink& link, const std::vector<int>& first_shards,
                     CostProfile& costs);

// With this latency, on which the all-reduce of all parameters at once takes `rho` of a step's
// computing. Throws Error where that is less than its latencies.
ReplayLink link_of_rho(double rho, double latency_s, const std::vector<int>& first_shards,
                       const CostProfile& network);

struct ReplayScale {
  double bytes = 1;  // divides elements and bandwidth
  double times = 1;  // multiplies times and latencies, divides bandwidth

  // Such that a step takes .5 to 3 s, and a rank sends at most 50 MB/s in an all-reduce of each:
  // both by the lower bound of `network`.
  static ReplayScale for_this_machine(const CostProfile& network,
                                      const std::vector<int>& first_shards);
};

// Layers have at least as many elements as a parameter's slot (ParameterSpace::kAlign), where they
// have any. Throws Error for a scale that is not above 0 and finite.
CostProfile scaled(const CostProfile& network, const ReplayScale& scale);
ReplayLink scaled(const ReplayLink& link, const ReplayScale& scale);

// The plan of `schedule` is made for the network as it is, where all but its layers costs what it
// costs in `replayed`, and cut where the replayed layers are. Throws Error where make_comm_plan()
// does.
CommPlan replay_plan(const std::string& schedule, const CostProfile& network,
                     const ReplayScale& scale, const CostProfile& replayed);

}  // namespace ndtrain
