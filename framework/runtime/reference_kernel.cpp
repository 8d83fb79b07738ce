#include "framework/runtime/reference_kernel.h"

#include <mutex>
#include <set>

#include "framework/core/log.h"

namespace ndtrain {

ReferenceKernel::ReferenceKernel(const Graph& g, const Node& n)
    : def_(find_op(n.op)), attrs_(n.attrs) {
  for (const ValueId v : n.inputs) {
    in_.push_back(v == kNone ? TensorType{DType::kNone, {}} : g.type(v));
  }
  for (const ValueId v : n.outputs) out_.push_back(g.type(v));
}

void ReferenceKernel::run(std::span<const void* const> inputs,
                          std::span<void* const> outputs) const {
  std::vector<std::vector<double>> in(in_.size());
  for (size_t k = 0; k < in_.size(); ++k) {
    if (in_[k].dtype == DType::kNone) continue;
    in[k].resize(static_cast<size_t>(in_[k].shape.count()));
    load(inputs[k], in[k].size(), in_[k].dtype, in[k].data());
  }
  const auto out = run_reference(def_, attrs_, in_, out_, in);
  for (size_t k = 0; k < out.size(); ++k) {
    store(out[k].data(), out[k].size(), out_[k].dtype, outputs[k]);
  }
}

void say_by_reference(const std::string& op) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (!said.insert(op).second) return;
  log::warn("there is no kernel for {}: its reference runs, in double and in one thread", op);
}

}  // namespace ndtrain
