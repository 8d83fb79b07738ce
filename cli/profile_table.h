#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/context.h"
#include "framework/runtime/executor.h"

namespace ndtrain::cli {

using NodeTimes = std::vector<Executor::NodeTime>;

// Of each node the median of at least three runs and `seconds`; `run` runs once and says each
// node's time.
NodeTimes median_profile(double seconds, const std::function<NodeTimes()>& run);

// Time by op, largest first, and its share of what `device` can do at best, which this measures.
// Into `json` goes every node besides, in the order they run.
std::string profile_table(const NodeTimes& nodes, const Device& device, Json& json);

}  // namespace ndtrain::cli
