// The kernels of a laid-out graph: asks the backend about every node, and gathers what it says.
// Private to Plan.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "framework/runtime/program.h"

namespace ndtrain {

class Preparation {
 public:
  // All of it must outlive this. `bound`: values that are given at every run.
  Preparation(const Graph& g, std::span<const ndt_tensor_type> types, const Device& device,
              const std::set<ValueId>& bound, const Stretch& stretch);

  // Concats that need no copy: see join.h. Asks for the kernels of their parts.
  void join();
  // For all others. Throws one Error naming every node that is refused, and why.
  void ask_all();

  std::span<const NodePlan> plans() const { return plans_; }
  PreparedKernel take(size_t node) { return std::move(kernels_[node]); }
  const std::set<ValueId>& unpacked() const { return unpacked_; }  // constants read as they are
  size_t slot_workspace() const { return slot_workspace_; }  // bytes, of each slot of the stretch
  size_t workspace() const;

 private:
  bool is_constant(ValueId v) const;
  bool is_view_here(const Node& n) const;
  void reads(ValueId v);
  uint64_t id(ValueId v);
  // Empty when a backend takes the node, else the reasons why none does.
  std::string ask(size_t i);
  std::string ask(size_t i, const Device& device);

  const Graph& g_;
  std::span<const ndt_tensor_type> types_;
  const Device& device_;
  const std::set<ValueId>& bound_;
  const Stretch stretch_;
  const std::vector<ndt_tensor_type> within_;  // the types of its nodes
  std::vector<PreparedKernel> kernels_;
  std::vector<NodePlan> plans_;
  std::vector<ValueId> whole_;  // the joined value in which a node's output lies, or kNone
  std::set<ValueId> unpacked_;
  std::map<ValueId, uint64_t> ids_;
  size_t workspace_ = 0, slot_workspace_ = 0;
};

}  // namespace ndtrain
