#include "framework/pipeline/profiler/node_seconds.h"

#include <algorithm>

#include "framework/graph/uses.h"

namespace ndtrain {
namespace {

constexpr int kNoKernel = -1;

bool moves_a_value(const Executor::NodeTime& kernel) { return kernel.op == "Reorder"; }

// Of each node the kernel that does it. One without a kernel of its own is done by that of whoever
// reads it first; one that nothing runs for (a view, say) is there, too, with no seconds alone.
std::vector<int> kernel_of_nodes(const Graph& g, const Uses<ValueId>& uses,
                                 std::span<const Executor::NodeTime> kernels) {
  std::vector<int> kernel_of(g.nodes().size(), kNoKernel);
  for (size_t k = 0; k < kernels.size(); ++k) {
    const int node = kernels[k].makes == kNone || moves_a_value(kernels[k])
                         ? -1
                         : uses.producer(kernels[k].makes);
    if (node >= 0) kernel_of[static_cast<size_t>(node)] = static_cast<int>(k);
  }
  for (size_t i = kernel_of.size(); i-- > 0;) {
    for (const ValueId v : g.nodes()[i].outputs) {
      if (kernel_of[i] != kNoKernel || uses.reads(v) == 0) continue;
      const int reader = uses.readers(v).front();
      if (reader != uses.caller()) kernel_of[i] = kernel_of[static_cast<size_t>(reader)];
    }
  }
  return kernel_of;
}

}  // namespace

NodeSeconds::NodeSeconds(const Graph& g, std::span<const Executor::NodeTime> kernels,
                         std::span<const double> alone)
    : shares_(kernels.size()), workspaces_(g.nodes().size()) {
  const Uses<ValueId> uses = uses_of(g);
  const std::vector<int> kernel_of = kernel_of_nodes(g, uses, kernels);
  std::vector<double> all(kernels.size());
  for (size_t i = 0; i < kernel_of.size(); ++i) {
    if (kernel_of[i] == kNoKernel) continue;
    const auto k = static_cast<size_t>(kernel_of[i]);
    const double part = alone.empty() ? 1 : alone[i];
    shares_[k].push_back({i, part});
    all[k] += part;
  }
  int next = -1;  // the node of the kernel behind
  for (size_t k = kernels.size(); k-- > 0;) {
    const int maker = kernels[k].makes == kNone ? -1 : uses.producer(kernels[k].makes);
    if (shares_[k].empty()) {
      const int node = maker >= 0 ? maker : std::max(next, 0);
      shares_[k] = {{static_cast<size_t>(node), 1}};
    } else if (all[k] > 0) {
      for (Share& s : shares_[k]) s.part /= all[k];
    } else {
      shares_[k] = {{static_cast<size_t>(maker), 1}};
    }
    if (maker >= 0) next = maker;
    for (const Share& s : shares_[k]) {
      if (s.part > 0) workspaces_[s.node] = std::max(workspaces_[s.node], kernels[k].workspace);
    }
  }
}

std::vector<double> NodeSeconds::of(std::span<const Executor::NodeTime> run) const {
  if (run.size() != shares_.size()) {
    throw Error("a run of ", run.size(), " kernels of a plan that has ", shares_.size());
  }
  std::vector<double> seconds(workspaces_.size());
  for (size_t k = 0; k < run.size(); ++k) {
    for (const Share& s : shares_[k]) seconds[s.node] += run[k].seconds * s.part;
  }
  return seconds;
}

}  // namespace ndtrain
