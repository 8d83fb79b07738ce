#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/runtime/plan.h"

namespace ndtrain {

// Runs a Plan: owns one arena and one stream. One run at a time; several Executors may run one Plan
// at once. Running allocates nothing, but for the first two runs on a device that can record: a run
// with the addresses of the one before is recorded, and replayed from then on.
class Executor {
 public:
  explicit Executor(const Plan& plan);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // `bindings` are device addresses in the order of Plan::bindings(), `outputs` in the order of
  // Plan::outputs(). An output may lie over the binding it replaces (a parameter's next value) when
  // nothing reads that binding afterwards; the plan does not check. on_ready(k) is called when
  // output k is complete, in Plan::ready_order(). Throws Error on a device failure.
  using OnReady = std::function<void(int output)>;
  void run(std::span<const void* const> bindings, std::span<void* const> outputs,
           const OnReady& on_ready = {});

  // Takes the device memory through which host tensors go, where it is not the host's; else the
  // first such run does. Throws OutOfMemory.
  void reserve();
  // The same with host tensors, copied to and from the device.
  std::vector<Tensor> run(std::span<const Tensor> bindings);

  // Seconds per node of the last run when profiling is on, in plan order.
  struct NodeTime {
    std::string op, name;
    DType dtype;        // of its first input
    double operations;  // in its sums of products; 0: it is none
    double seconds;
  };
  void set_profiling(bool on);
  std::vector<NodeTime> profile() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ndtrain
