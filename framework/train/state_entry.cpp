#include "framework/train/state_entry.h"

#include "framework/core/error.h"

namespace ndtrain {

const Tensor& state_entry(const std::map<std::string, Tensor>& state, const std::string& name,
                          const TensorType& type) {
  const auto it = state.find(name);
  if (it == state.end() || it->second.type() != type) {
    throw Error("checkpoint: optimizer state '", name,
                "' is missing or of another size; it was written for other parameters or another "
                "optimizer");
  }
  return it->second;
}

}  // namespace ndtrain
