#pragma once

#include <algorithm>
#include <cstdint>

namespace ndtrain {

// What the loss is multiplied by before gradients are made in f16, whose smallest numbers they
// would fall below: as large as goes without overflow (Micikevicius et al., "Mixed Precision
// Training", 2018; the constants are PyTorch's).
struct LossScale {
  static constexpr double kHighest = 1 << 24, kLowest = 1;
  static constexpr int64_t kPatience = 2000;  // steps without overflow before it grows

  double value = 65536;
  int64_t steps = 0;  // since it last changed

  // After a step; one with gradients that are not finite must not be applied.
  void update(bool finite) {
    if (finite && ++steps < kPatience) return;
    value = std::clamp(finite ? value * 2 : value / 2, kLowest, kHighest);
    steps = 0;
  }
};

}  // namespace ndtrain
