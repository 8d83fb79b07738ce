// A plan as ranks send it to each other:
//   {"buckets": [begin, end, …], "ops": ["R1", "R0", "+A1", "A0"],
//    "shard_optimizer": false, "update_late": true, "prefetch": 0}
// Buckets are in forward order, operations as CommPlan::text() writes them, with + in front of
// those of a call with the one before.
#pragma once

#include <string>
#include <string_view>

#include "framework/parallel/comm_plan.h"

namespace ndtrain {

std::string to_json(const CommPlan& plan);

// Throws Error where to_json() cannot have written it. Whether it is a plan of so many elements
// validate() says.
CommPlan parse_comm_plan(std::string_view json);

}  // namespace ndtrain
