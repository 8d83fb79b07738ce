#pragma once

#include <span>
#include <string>

#include "framework/runtime/executor.h"

namespace ndtrain::cli {

// Time by op, largest first, and its share of what `device` can do at best, which this measures.
std::string profile_table(std::span<const Executor::NodeTime> nodes, const Device& device);

}  // namespace ndtrain::cli
