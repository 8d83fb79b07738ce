// A node run by the reference of its op (OpDef::by_reference): in double, in one thread, on memory
// of the host. It takes memory while it runs, and is many times slower than a kernel: for ops in
// which no network spends its time. Whoever plans one is told, once for each op.
#pragma once

#include <span>
#include <vector>

#include "framework/graph/op.h"

namespace ndtrain {

class ReferenceKernel {
 public:
  ReferenceKernel(const Graph& g, const Node& n);

  // Row-major inputs (null: absent) and outputs, of the node's types; an f32 output is rounded to
  // f32. May be called from several threads at once. Throws Error where the values do not fit.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs) const;

 private:
  const OpDef& def_;
  Attrs attrs_;
  std::vector<TensorType> in_, out_;
};

// A warning, once for each op.
void say_by_reference(const std::string& op);

}  // namespace ndtrain
