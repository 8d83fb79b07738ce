// A stream on which an Executor runs its plan, and what is tied to it: the steps as they were
// recorded there, and the memory through which host tensors go. Private to Executor.
#pragma once

#include <span>
#include <vector>

#include "framework/core/tensor.h"
#include "framework/runtime/program.h"

namespace ndtrain {

class RunSlot {
 public:
  explicit RunSlot(const Plan::Program& p);  // throws Error
  ~RunSlot();                                // waits for what is under way
  RunSlot(const RunSlot&) = delete;
  RunSlot& operator=(const RunSlot&) = delete;

  ndt_stream* stream() const { return stream_; }
  void wait(const char* what) { p_.device.backend().check(abi_.stream_wait(stream_), what); }

  // The steps as one kernel, once they are run with the addresses of the run before: these may be
  // for good. Null: not yet.
  PreparedKernel& recorded() { return recorded_; }
  // Whether these are the addresses of the run before. Forgets the recording when they are not.
  bool again(std::span<const void* const> bindings, std::span<void* const> outputs);

  // Takes the memory for host tensors, once; throws OutOfMemory.
  void stage();
  // Queues copies of tensors that have as many rows as the plan's, or fewer: what follows is zeros,
  // or rows of an earlier run. Holds on to them until the end of the run.
  void upload(std::span<const Tensor> given);
  // Queues copies of the outputs to results().
  void download();
  bool busy() const { return busy_; }
  // Waits, and lets go of what was given; throws Error.
  void finish();
  // Work that follows is not begun before `other` has done what it was given until its last mark().
  void mark();
  void follow(const RunSlot& other);

  const std::vector<const void*>& inputs() const { return input_addresses_; }
  const std::vector<void*>& outputs() const { return output_addresses_; }
  const std::vector<Tensor>& results() const { return results_; }

 private:
  const Plan::Program& p_;
  const ndt_backend& abi_;
  ndt_stream* stream_ = nullptr;
  ndt_event* marked_ = nullptr;  // null where there are no events
  PreparedKernel recorded_;
  std::vector<const void*> last_bindings_, input_addresses_;
  std::vector<void*> last_outputs_, output_addresses_;
  std::vector<DeviceBuffer> staged_;
  std::vector<Tensor> given_, results_;
  bool busy_ = false;
};

}  // namespace ndtrain
