#pragma once

#include <cstdint>

namespace ndtrain {

// Elements [begin, end) of the flat space of a training's parameters.
struct ParameterRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const ParameterRange&) const = default;
};

}  // namespace ndtrain
