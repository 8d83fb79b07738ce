#pragma once

#include <vector>

#include "framework/graph/graph.h"
#include "framework/runtime/backend.h"

namespace ndtrain {

// A graph node in the plugin interface's form. Borrows names and attributes from the node, which
// must outlive it.
class AbiNode {
 public:
  AbiNode(const Graph& g, const Node& n);
  AbiNode(const AbiNode&) = delete;
  AbiNode& operator=(const AbiNode&) = delete;

  void set_constant(size_t input, const void* data, uint64_t id) {
    constants_[input] = data;
    ids_[input] = id;
  }
  // Output 0's dim 0 steps over `elements`, more than the other dims fill.
  void set_outer_stride(int64_t elements) { outputs_[0].strides[0] = elements; }
  const ndt_node& get() const { return node_; }

 private:
  std::vector<ndt_tensor_type> inputs_, outputs_;
  std::vector<ndt_attr> attrs_;
  std::vector<const void*> constants_;
  std::vector<uint64_t> ids_;
  ndt_node node_{};
};

}  // namespace ndtrain
