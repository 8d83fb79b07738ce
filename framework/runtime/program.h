// What a Plan holds and an Executor runs. Private to the two.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/runtime/memory_plan.h"
#include "framework/runtime/plan.h"
#include "framework/runtime/reference_kernel.h"

namespace ndtrain {

// A kernel and the device that made it, to which it goes back; or the reference of an op.
class PreparedKernel {
 public:
  PreparedKernel() = default;
  PreparedKernel(const Device& device, ndt_kernel* kernel) : device_(&device), kernel_(kernel) {}
  explicit PreparedKernel(std::unique_ptr<ReferenceKernel> reference)
      : reference_(std::move(reference)) {}
  PreparedKernel(PreparedKernel&& o) noexcept { *this = std::move(o); }
  PreparedKernel& operator=(PreparedKernel&& o) noexcept {
    std::swap(device_, o.device_);
    std::swap(kernel_, o.kernel_);
    std::swap(reference_, o.reference_);
    return *this;
  }
  ~PreparedKernel() {
    if (kernel_) device_->abi().release(kernel_);
  }

  bool is_there() const { return kernel_ || reference_; }
  const ReferenceKernel* reference() const { return reference_.get(); }  // else get() of device()
  const ndt_kernel* get() const { return kernel_; }
  const Device& device() const { return *device_; }

 private:
  const Device* device_ = nullptr;
  ndt_kernel* kernel_ = nullptr;
  std::unique_ptr<ReferenceKernel> reference_;
};

struct Step {
  PreparedKernel kernel;
  std::vector<ValueLocation> inputs, outputs;
  std::string op, name;
  DType dtype;            // of its first input
  double operations = 0;  // framework/graph/arithmetic.h
  ValueId makes = kNone;  // of the graph that was planned, the last that it computes
  size_t workspace = 0, workspace_at = 0;  // bytes, and where in the arena
  std::vector<int> needs;                  // bindings of the plan that it is the first to read
  std::vector<int> completes;              // outputs of the plan that are ready after it
};

struct Plan::Program {
  explicit Program(const Device& d) : device(d) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const Device& device;
  std::vector<ValueId> bindings, outputs;
  std::vector<TensorType> types;  // per value
  std::vector<Step> steps;
  std::map<size_t, const void*> constants;  // device address by value
  std::vector<Tensor> kept;                 // host tensors that constants point into
  std::vector<DeviceBuffer> uploaded;       // where the device has memory of its own
  std::vector<int> ready_order, need_order;
  size_t ready_by_steps = 0, needed_by_steps = 0;  // of these; the others at the end
  std::vector<ValueLocation> output_locations;
  MemoryPlan memory;
  size_t constant_bytes = 0;
  BatchTiling tiling;      // of the first tiled_steps
  size_t tiled_steps = 0;  // nodes of it for which something runs
};

}  // namespace ndtrain
