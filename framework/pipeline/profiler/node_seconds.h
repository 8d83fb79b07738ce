// What kernels of a plan took, told to the nodes of the graph that was planned. Pure.
#pragma once

#include <span>
#include <vector>

#include "framework/runtime/executor.h"

namespace ndtrain {

// Which kernel stands for which nodes. A device fuses nodes: such a kernel's seconds are shared out
// to its nodes in proportion to what they take by themselves. What brings a value into another
// layout is with the node that makes the value, or, of a value that is given, with the next kernel.
class NodeSeconds {
 public:
  // `kernels`: of a plan of `g`, in its order; their seconds are not looked at. `alone`: of each
  // node, its seconds in a plan that fuses nothing; none: of nodes of one kernel all have the same
  // share.
  NodeSeconds(const Graph& g, std::span<const Executor::NodeTime> kernels,
              std::span<const double> alone = {});

  // Of each node, of one run of that plan. They add up to what all kernels took.
  std::vector<double> of(std::span<const Executor::NodeTime> run) const;
  // The largest of its kernels.
  const std::vector<size_t>& workspaces() const { return workspaces_; }

 private:
  struct Share {
    size_t node = 0;
    double part = 1;
  };
  std::vector<std::vector<Share>> shares_;  // by kernel
  std::vector<size_t> workspaces_;          // by node
};

}  // namespace ndtrain
