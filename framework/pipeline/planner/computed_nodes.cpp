#include "framework/pipeline/planner/computed_nodes.h"

#include <algorithm>

namespace ndtrain {
namespace {

NodeTime operator+(const NodeTime& a, const NodeTime& b) {
  return {a.mean_s + b.mean_s, a.median_s + b.median_s, a.deviation_s + b.deviation_s,
          a.fixed_s + b.fixed_s};
}

void append(NodeProfile& to, const NodeProfile& n) {
  to.forward = to.forward + n.forward;
  to.input_gradient = to.input_gradient + n.input_gradient;
  to.weight_gradient = to.weight_gradient + n.weight_gradient;
  to.activation_bytes = n.activation_bytes;
  to.saved_bytes += n.saved_bytes;
  to.workspace_bytes = std::max(to.workspace_bytes, n.workspace_bytes);
  to.fixed_workspace_bytes = std::max(to.fixed_workspace_bytes, n.fixed_workspace_bytes);
  to.parameter_bytes += n.parameter_bytes;
  to.frozen_bytes += n.frozen_bytes;
}

// What `n` is appended to with compressed branches, -1 if nothing: what it alone reads, where that
// is in a branch and read by nobody else.
int continues(const ModelProfile& profile, int n, const std::vector<int>& readers,
              const std::vector<bool>& in_branch) {
  const std::vector<int>& inputs = profile.nodes[static_cast<size_t>(n)].inputs;
  if (inputs.size() != 1) return -1;
  const auto before = static_cast<size_t>(inputs.front());
  return in_branch[before] && readers[before] == 1 ? inputs.front() : -1;
}

// Groups in an order in which the first node of each reads nodes of groups in front.
std::vector<std::vector<int>> grouped(const ModelProfile& profile, bool compress_branches) {
  std::vector<int> readers(profile.nodes.size()), group_of(profile.nodes.size());
  for (const NodeProfile& n : profile.nodes) {
    for (const int i : n.inputs) ++readers[static_cast<size_t>(i)];
  }
  std::vector<bool> in_branch(profile.nodes.size());
  std::vector<std::vector<int>> groups;
  for (const int n : execution_order(profile)) {
    const int before = compress_branches ? continues(profile, n, readers, in_branch) : -1;
    const std::vector<int>& inputs = profile.nodes[static_cast<size_t>(n)].inputs;
    if (before >= 0) {
      group_of[static_cast<size_t>(n)] = group_of[static_cast<size_t>(before)];
    } else {
      group_of[static_cast<size_t>(n)] = static_cast<int>(groups.size());
      groups.emplace_back();
    }
    in_branch[static_cast<size_t>(n)] =
        before >= 0 || (inputs.size() == 1 && readers[static_cast<size_t>(inputs.front())] > 1);
    groups[static_cast<size_t>(group_of[static_cast<size_t>(n)])].push_back(n);
  }
  return groups;
}

}  // namespace

ComputedNodes computed_nodes(const ModelProfile& profile, bool compress_branches) {
  ComputedNodes all{.copy_s = profile.copy_s(), .load_s = profile.load_s()};
  std::vector<int> place(profile.nodes.size(), -1);
  for (const std::vector<int>& members : grouped(profile, compress_branches)) {
    NodeProfile node = profile.nodes[static_cast<size_t>(members.front())];
    if (node.is_input()) continue;
    std::vector<int> inputs;
    for (const int i : node.inputs) {
      if (place[static_cast<size_t>(i)] >= 0) inputs.push_back(place[static_cast<size_t>(i)]);
    }
    node.inputs = std::move(inputs);
    all.ids.emplace_back();
    for (const int m : members) {
      const NodeProfile& member = profile.nodes[static_cast<size_t>(m)];
      if (m != members.front()) append(node, member);
      all.ids.back().push_back(member.id);
      place[static_cast<size_t>(m)] = static_cast<int>(all.nodes.size());
    }
    if (members.size() > 1) node.description = "Branch";
    all.nodes.push_back(std::move(node));
  }
  return all;
}

}  // namespace ndtrain
