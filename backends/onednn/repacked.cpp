#include "backends/onednn/repacked.h"

#include <array>

#include "backends/onednn/node.h"

namespace ndtrain::onednn {
namespace {

constexpr int kMostInputs = 4;

}  // namespace

Repacked::Repacked(std::unique_ptr<Kernel> kernel, int inputs, int weights, const Desc& from,
                   const Desc& to)
    : kernel_(std::move(kernel)),
      inputs_(inputs),
      weights_(weights),
      reorder_(reorder(from, to)),
      packed_(whole_lines(to.get_size())) {
  if (inputs > kMostInputs) unsupported("it has ", inputs, " inputs");
  workspace_bytes = packed_ + std::max(kernel_->workspace_bytes, reorder_->scratch());
}

void Repacked::run(const void* const* in, void* const* out, void* workspace) const {
  char* const rest = static_cast<char*>(workspace) + packed_;
  void* const ends[] = {const_cast<void*>(in[weights_]), workspace};
  reorder_->run(ends, rest);
  std::array<const void*, kMostInputs> ports = {};
  std::copy_n(in, inputs_, ports.begin());
  ports[static_cast<size_t>(weights_)] = workspace;
  kernel_->run(ports.data(), out, rest);
}

}  // namespace ndtrain::onednn
