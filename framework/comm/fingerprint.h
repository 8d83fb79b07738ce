// What has to be equal on all ranks of a run, or its bytes would not be what they are.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ndtrain {

// Names and values in a fixed order, what decides most first: program, model, data, flags.
using Fingerprint = std::vector<std::pair<std::string, std::string>>;

// The first field in which `theirs`, which may hold anything, is not `ours`, for people: "model is
// ab12, not cd34". Empty when they are equal.
std::string first_difference(const Fingerprint& ours, const Fingerprint& theirs);

}  // namespace ndtrain
