#pragma once

#include <map>
#include <string>

#include "framework/core/tensor.h"

namespace ndtrain {

// What a checkpoint has of an optimizer by this name. Throws Error where it is not of this type.
const Tensor& state_entry(const std::map<std::string, Tensor>& state, const std::string& name,
                          const TensorType& type);

}  // namespace ndtrain
