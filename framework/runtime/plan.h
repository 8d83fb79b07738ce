// A Plan is one graph prepared for one device: every node has a kernel, constant weights are
// packed, every buffer has its place in one arena. Immutable once made; Executors run it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/graph/graph.h"
#include "framework/runtime/backend.h"
#include "framework/runtime/batch_tiling.h"

namespace ndtrain {

struct PlanOptions {
  // Params given at every run (the trainable ones). All other params are constants of the plan.
  std::vector<ValueId> bound_params = {};
  bool reuse_memory = true;  // false: every value has a buffer of its own (for tests)
  bool fuse = true;          // false: a kernel for each node of the graph (to tell their times)
  TilingRule tiling = {};
};

class Plan {
 public:
  // Asks the backend about every node before anything runs; throws one Error naming all nodes it
  // refuses, with its reasons. Keeps what it needs of `g`; `device` must outlive the plan.
  Plan(const Graph& g, const Device& device, PlanOptions options = {});
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // What a run is given, in this order: the graph's inputs, then bound_params.
  std::span<const ValueId> bindings() const;
  // The graph's outputs, in order.
  std::span<const ValueId> outputs() const;
  // Numbers of outputs in the order in which a run completes them, and of bindings in the order in
  // which it first reads them, behind these those that it does not read. Fixed at plan time.
  std::span<const int> ready_order() const;
  std::span<const int> need_order() const;
  const TensorType& type(ValueId v) const;

  const Device& device() const;
  const BatchTiling& tiling() const;
  size_t arena_bytes() const;     // one executor's buffers and workspace
  size_t constant_bytes() const;  // constants read as they are; packed ones belong to the backend
  size_t kernel_count() const;

  struct Program;  // framework/runtime/program.h

 private:
  friend class Executor;
  std::unique_ptr<Program> program_;
};

}  // namespace ndtrain
