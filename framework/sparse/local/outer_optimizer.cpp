#include "framework/sparse/local/outer_optimizer.h"

#include <cstddef>

namespace ndtrain {

void outer_step(std::span<const float> gradient, double lr, double momentum,
                std::span<float> velocity, std::span<float> values) {
  const auto rate = static_cast<float>(lr), mu = static_cast<float>(momentum);
  if (mu == 0) {
    for (size_t i = 0; i < gradient.size(); ++i) values[i] -= rate * gradient[i];
    return;
  }
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float g = gradient[i];
    const float v = mu * velocity[i] + g;
    velocity[i] = v;
    values[i] -= rate * (g + mu * v);
  }
}

}  // namespace ndtrain
