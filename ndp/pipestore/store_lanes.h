// The lane of a PipeStore's service: models, rows and deletions, one after the other.
#pragma once

#include <cstddef>

namespace ndtrain::ndp {

inline constexpr size_t kStoreLane = 0;
inline constexpr size_t kStoreLanes = 1;

}  // namespace ndtrain::ndp
