// What is done to every element of a gradient, by all threads of the program (shared_threads()).
#pragma once

#include <span>

namespace ndtrain {

// Whether none is NaN or infinite.
bool are_finite(std::span<const float> values);

// As many of `from` are added, which do not overlap `to`.
void add_to(std::span<float> to, const float* from);
// As many are copied there.
void copy_to(std::span<float> to, const float* from);

}  // namespace ndtrain
