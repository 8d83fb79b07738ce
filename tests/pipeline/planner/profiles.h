// Profiles for tests.
#pragma once

#include <string>
#include <vector>

#include "framework/core/rng.h"
#include "framework/pipeline/planner/model_profile.h"
#include "framework/pipeline/planner/topology.h"

namespace ndtrain::testing {

struct ChainNode {
  double forward_s, backward_s, activation_bytes, parameter_bytes;
};

// "n0" reads nothing, each other node the one before it; saved values are what it makes.
ModelProfile chain(const std::vector<ChainNode>& nodes);

// `nodes` of them behind an input; a chain, or where `branched` each reads one or two before it,
// and whatever nobody reads the last one reads. Some work in place, some have no parameters.
ModelProfile random_profile(Rng& rng, int nodes, bool branched);

// A level for each number of units, each slower than the one below.
Topology random_topology(Rng& rng, const std::vector<int>& units);

std::string read_text(const std::string& path);

}  // namespace ndtrain::testing
