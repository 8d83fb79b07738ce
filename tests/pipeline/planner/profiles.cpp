#include "tests/pipeline/planner/profiles.h"

#include <algorithm>

#include "framework/core/fs.h"

namespace ndtrain::testing {
namespace {

NodeProfile node(const std::string& id, const ChainNode& costs) {
  NodeProfile n{.id = id, .description = "Op"};
  n.forward = NodeTime::exactly(costs.forward_s);
  n.input_gradient = NodeTime::exactly(costs.backward_s);
  n.activation_bytes = n.saved_bytes = costs.activation_bytes;
  n.parameter_bytes = costs.parameter_bytes;
  return n;
}

NodeProfile random_node(Rng& rng, int number) {
  NodeProfile n =
      node("n" + std::to_string(number), {rng.next_uniform() * 1e-2, rng.next_uniform() * 2e-2,
                                          rng.next_uniform() * 1e8, rng.next_uniform() * 1e8});
  if (rng.next_below(3) == 0) n.parameter_bytes = 0;
  if (rng.next_below(4) == 0) {
    n.description = "Add()";
    n.saved_bytes = 0;
  }
  n.workspace_bytes = rng.next_uniform() * 1e7;
  n.fixed_workspace_bytes = rng.next_uniform() * n.workspace_bytes;
  return n;
}

// All but the last that nobody reads.
std::vector<int> unread(const ModelProfile& profile) {
  std::vector<int> nodes;
  for (int i = 0; i + 1 < static_cast<int>(profile.nodes.size()); ++i) {
    const auto reads = [&](const NodeProfile& n) { return std::ranges::count(n.inputs, i) > 0; };
    if (std::ranges::none_of(profile.nodes, reads)) nodes.push_back(i);
  }
  return nodes;
}

}  // namespace

ModelProfile chain(const std::vector<ChainNode>& nodes) {
  ModelProfile profile{.model = "chain", .source = "a test"};
  for (const ChainNode& n : nodes) {
    const int number = static_cast<int>(profile.nodes.size());
    profile.nodes.push_back(node("n" + std::to_string(number), n));
    if (number > 0) profile.nodes.back().inputs = {number - 1};
  }
  return profile;
}

ModelProfile random_profile(Rng& rng, int nodes, bool branched) {
  ModelProfile profile{.model = "random", .source = "a test"};
  profile.optimizer_s_per_byte = 1e-10;
  profile.moment_bytes_per_byte = static_cast<double>(rng.next_below(3));
  profile.nodes.push_back({.id = "input", .description = "Input0"});
  profile.nodes[0].forward = NodeTime::exactly(rng.next_uniform() * 1e-3);
  profile.nodes[0].input_gradient = NodeTime::exactly(rng.next_uniform() * 3e-2);
  for (int i = 1; i <= nodes; ++i) {
    NodeProfile n = random_node(rng, i);
    n.inputs = {i - 1};
    if (branched && i > 1) {
      const auto before = [&] {
        return 1 + static_cast<int>(rng.next_below(static_cast<uint64_t>(i - 1)));
      };
      n.inputs = {before()};
      if (const int other = before(); rng.next_below(2) == 0 && other != n.inputs[0]) {
        n.inputs.push_back(other);
      }
    }
    profile.nodes.push_back(std::move(n));
  }
  for (NodeProfile& n : profile.nodes) {
    for (NodeTime* t : {&n.forward, &n.input_gradient, &n.weight_gradient}) {
      if (!n.is_input()) t->fixed_s = t->median_s * rng.next_uniform() * 0.3;
    }
  }
  for (const int i : unread(profile)) profile.nodes.back().inputs.push_back(i);
  return profile;
}

Topology random_topology(Rng& rng, const std::vector<int>& units) {
  Topology topology;
  double rate = 1e10;
  for (const int n : units) {
    topology.levels.push_back({.units = n,
                               .all_reduce_bytes_per_s = rate * (1 + rng.next_uniform()),
                               .p2p_bytes_per_s = rate * (1 + rng.next_uniform()),
                               .all_reduce_s = rng.next_uniform() * 1e-4,
                               .p2p_s = rng.next_uniform() * 1e-4,
                               .fully_connected = rng.next_below(2) == 0});
    rate /= 10;
  }
  return topology;
}

std::string read_text(const std::string& path) { return real_fs().read(path).or_throw(); }

}  // namespace ndtrain::testing
