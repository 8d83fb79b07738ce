// Steps that carry out a part of their exchange, to see what it costs. What they learn is nothing.
#pragma once

#include <optional>
#include <string_view>

#include "framework/parallel/comm_plan.h"

namespace ndtrain {

enum class Breakdown : uint8_t { kWhole, kReduceScatters, kAllGathers, kNeither };

// rs, ag, none; throws Error.
Breakdown breakdown_named(std::string_view name);

// What is carried out of a planned operation: of one that makes the whole sum, the half that is
// asked for.
std::optional<PlannedOp::Kind> carried_out(PlannedOp::Kind planned, Breakdown only);

}  // namespace ndtrain
