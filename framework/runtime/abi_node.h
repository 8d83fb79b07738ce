#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "framework/graph/graph.h"
#include "framework/runtime/backend.h"

namespace ndtrain {

// A graph node in the plugin interface's form. Borrows names and attributes from the node, which
// must outlive it.
class AbiNode {
 public:
  // `types`: how the values of its graph lie.
  AbiNode(const Node& n, std::span<const ndt_tensor_type> types);
  AbiNode(const AbiNode&) = delete;
  AbiNode& operator=(const AbiNode&) = delete;

  void set_constant(size_t input, const void* data, uint64_t id) {
    constants_[input] = data;
    ids_[input] = id;
  }
  // Output 0 lies inside `whole`, of which it is a part.
  void set_output_within(const ndt_tensor_type& whole) {
    std::copy_n(whole.strides, whole.rank, outputs_[0].strides);
  }
  void set_ports(std::span<const ndt_tensor_type> inputs, const ndt_tensor_type& output) {
    std::ranges::copy(inputs, inputs_.begin());
    outputs_[0] = output;
  }
  void set_in_one_thread() { node_.in_one_thread = 1; }
  const ndt_node& get() const { return node_; }

 private:
  std::vector<ndt_tensor_type> inputs_, outputs_;
  std::vector<ndt_attr> attrs_;
  std::vector<const void*> constants_;
  std::vector<uint64_t> ids_;
  ndt_node node_{};
};

}  // namespace ndtrain
