#include "framework/sparse/local/outer_optimizer.h"

#include <gtest/gtest.h>

#include <vector>

namespace ndtrain {
namespace {

// torch.optim.SGD([x], lr=0.7, momentum=0.9, nesterov=True) from 1 with gradients 0.5, -0.25, 1.
TEST(OuterOptimizer, StepsAsPyTorchsNesterov) {
  std::vector<float> x = {1}, v = {0};
  const std::vector<std::pair<float, float>> steps = {
      {0.5F, 0.335F}, {-0.25F, 0.384F}, {1.0F, -1.0594F}};
  for (const auto& [gradient, expected] : steps) {
    outer_step(std::vector<float>{gradient}, 0.7, 0.9, v, x);
    EXPECT_NEAR(x[0], expected, 1e-5);
  }
}

TEST(OuterOptimizer, WithoutMomentumIsASubtraction) {
  std::vector<float> x = {5, 7};
  outer_step(std::vector<float>{2, -1}, 1, 0, {}, x);
  EXPECT_EQ(x, (std::vector<float>{3, 8}));
}

}  // namespace
}  // namespace ndtrain
