// The ops of this plugin.
#pragma once

#include <string_view>

#include "backends/cuda/kernel.h"

namespace ndtrain::cuda {

const Op* find_op(std::string_view name);  // null: not here

}  // namespace ndtrain::cuda
