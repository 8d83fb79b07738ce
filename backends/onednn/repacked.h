// A kernel with weights that change from run to run: before each they are laid out as it reads
// them.
#pragma once

#include <memory>

#include "backends/onednn/dnnl.h"
#include "backends/onednn/kernel.h"

namespace ndtrain::onednn {

class Repacked final : public Kernel {
 public:
  // Of `inputs`, the one at `weights` comes as `from`; `kernel` reads it as `to`.
  Repacked(std::unique_ptr<Kernel> kernel, int inputs, int weights, const Desc& from,
           const Desc& to);
  void run(const void* const* in, void* const* out, void* workspace) const override;

 private:
  std::unique_ptr<Kernel> kernel_;
  int inputs_, weights_;
  PrimitivePtr reorder_;
  size_t packed_;  // bytes
};

}  // namespace ndtrain::onednn
