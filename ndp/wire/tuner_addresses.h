#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ndtrain::ndp {

// Of "ADDRESS" or "ADDRESS,ADDRESS", a Tuner's and its standbys': one has the state at a time, and
// a store dials one after the other. Throws Error for an empty one.
std::vector<std::string> tuner_addresses(std::string_view list);

}  // namespace ndtrain::ndp
