#pragma once

#include <vector>

#include "framework/runtime/plan.h"

namespace ndtrain::testing {

// What Executor::run takes besides the plan: pointers to `inputs`, which are borrowed, and to
// outputs of its own.
struct BoundRun {
  BoundRun(const Plan& plan, const std::vector<Tensor>& inputs) {
    for (ValueId v : plan.outputs()) outputs.emplace_back(plan.type(v));
    for (const Tensor& t : inputs) in.push_back(t.data());
    for (Tensor& t : outputs) out.push_back(t.mutable_data());
  }

  std::vector<Tensor> outputs;
  std::vector<const void*> in;
  std::vector<void*> out;
};

}  // namespace ndtrain::testing
