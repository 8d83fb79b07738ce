#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/runtime/hooks.h"
#include "framework/runtime/plan.h"
#include "framework/runtime/work_memory.h"

namespace ndtrain {

// Runs a Plan, in memory of its own or in what it shares with others. One thread at a time, and one
// run at a time but for start(); several Executors may run one Plan at once. Running allocates
// nothing, but for the first two runs on a device that can record: a run with the addresses of the
// one before is recorded, and replayed from then on. A run with hooks, or one that is profiled,
// goes step by step.
class Executor {
 public:
  // `shared`: no other Executor with it runs at the same time, and no run is recorded.
  explicit Executor(const Plan& plan, std::shared_ptr<WorkMemory> shared = nullptr);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // `bindings` are device addresses in the order of Plan::bindings(), `outputs` in the order of
  // Plan::outputs(). An output may lie over the binding it replaces (a parameter's next value) when
  // nothing reads that binding afterwards; the plan does not check. All is done on return. Throws
  // Error on a device failure.
  void run(std::span<const void* const> bindings, std::span<void* const> outputs,
           const Hooks& hooks = {});

  // The same with host tensors, copied to and from the device. Where its memory is not the host's
  // they may have fewer rows than the plan, as for start().
  std::vector<Tensor> run(std::span<const Tensor> bindings);

  // The same in two halves, on a device with memory of its own. start() queues copies of the
  // bindings, the run, and copies of its outputs, on a stream of their own: of runs that are
  // started at once the copies of one go on while another computes. The runs share the arena, so
  // they compute one after the other. A binding with fewer rows (of the first axis) than the plan
  // is followed by zeros or by rows of an earlier run, which leaves the rows of a batch-invariant
  // graph alone. Bindings stay as they are until finish(n), n being start()'s answer, which waits;
  // what it gives lasts until the next start(). Both throw Error.
  size_t start(std::span<const Tensor> bindings);
  std::span<const Tensor> finish(size_t started);
  // For how many runs at once there is device memory, which it takes; at most `at_once`, and none
  // where memory is shared. Throws OutOfMemory where there is none for one. What was not reserved
  // is taken when it is first needed.
  size_t reserve(size_t at_once = 1);

  // Seconds per node of the last run when profiling is on, in plan order.
  struct NodeTime {
    std::string op, name;
    DType dtype;        // of its first input
    double operations;  // in its sums of products; 0: it is none
    double seconds;
    // Of the graph that was planned, the last value that the kernel makes, since it may stand for
    // several nodes; of a Reorder the one that it moves. kNone: a part of what takes several.
    ValueId makes = kNone;
    size_t workspace = 0;  // bytes
  };
  void set_profiling(bool on);
  std::vector<NodeTime> profile() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ndtrain
