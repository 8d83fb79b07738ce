// A kernel of one cuDNN plan between ports that lie otherwise than the plan wants: those are copied
// through the workspace.
#pragma once

#include <optional>
#include <vector>

#include "backends/cuda/dnn/choose.h"
#include "backends/cuda/dnn/relayout.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/memory.h"

namespace ndtrain::cuda {

class Staged final : public Kernel {
 public:
  struct Port {
    enum class Role { kInput, kOutput, kFixed } role;
    int index = 0;                    // of the node's input or output
    ndt_tensor_type outside, inside;  // how it lies, and how the plan (and finish) want it
    std::shared_ptr<const Memory> data = nullptr;  // of a kFixed port
  };

  // What is done to output 0 after the plan; ports by their place in the list, -1: not there.
  struct After {
    ConvFinish how;
    int y = -1, bias = -1, residual = -1;
  };

  // The first ports are those of the plan's bound tensors, in their order.
  Staged(Plan plan, std::vector<Port> ports, std::optional<After> after);
  void run(ndt_stream& stream, const void* const* in, void* const* out,
           void* workspace) const override;

 private:
  struct Place {
    bool staged = false;
    size_t offset = 0;  // in the workspace
    StridedCopy copy;
  };

  Plan plan_;
  std::vector<Port> ports_;
  std::vector<Place> places_;  // one per port
  std::optional<After> after_;
};

}  // namespace ndtrain::cuda
