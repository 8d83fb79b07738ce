#pragma once

#include <span>
#include <string>

#include "cli/context.h"
#include "framework/sparse/selection/selection.h"

namespace ndtrain::cli {

// What the optimizer of that name does a second with these gradients of a tensor of n elements, one
// after the other, and with the same made dense. Throws Error.
Json optimizer_rates(const std::string& name, int64_t n, std::span<const Selection> gradients);

}  // namespace ndtrain::cli
