// Parameters of which another part is sent than of the others: those of a layer, say.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/train/parameter_space.h"

namespace ndtrain {

// "fc.weight=0.5" as a name, in which "*" is anything, and a drop; none where it is not that, or
// the drop is not from 0 to below 1.
std::optional<std::pair<std::string, double>> named_drop(std::string_view text);

// For each slot what the last of `drops` says that fits its name; none where none does. Throws
// Error where one fits no slot, or is not from 0 to below 1.
std::vector<std::optional<double>> drops_of(std::span<const ParameterSlot> slots,
                                            std::span<const std::pair<std::string, double>> drops);

}  // namespace ndtrain
