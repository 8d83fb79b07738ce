#include "framework/numeric/nelder_mead.h"

#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

using Numbers = std::vector<double>;

Bounds cube(size_t n, double low, double high) { return {Numbers(n, low), Numbers(n, high)}; }

double rosenbrock(std::span<const double> x) {
  return 100 * std::pow(x[1] - x[0] * x[0], 2) + std::pow(1 - x[0], 2);
}

TEST(NelderMead, FindsRosenbrocksValley) {
  for (const bool adaptive : {false, true}) {
    const Minimum m =
        nelder_mead(rosenbrock, Numbers{-1.2, 1}, cube(2, -5, 5), {.adaptive = adaptive});
    EXPECT_NEAR(m.at[0], 1, 1e-6);
    EXPECT_NEAR(m.at[1], 1, 1e-6);
    EXPECT_EQ(m.value, rosenbrock(m.at));
    EXPECT_LT(m.evaluations, 500);
  }
}

TEST(NelderMead, FindsTheMiddleOfAStretchedBowl) {
  for (size_t n : {1, 2, 5, 8}) {
    const Objective bowl = [](std::span<const double> x) {
      double sum = 3;
      for (size_t i = 0; i < x.size(); ++i) {
        const auto k = static_cast<double>(i + 1);
        sum += k * k * (x[i] - 1 / k) * (x[i] - 1 / k);
      }
      return sum;
    };
    const Minimum m = nelder_mead(bowl, Numbers(n, -2), cube(n, -4, 4), {.evaluations = 20'000});
    EXPECT_NEAR(m.value, 3, 1e-8) << n;
    for (size_t i = 0; i < n; ++i) EXPECT_NEAR(m.at[i], 1.0 / static_cast<double>(i + 1), 1e-4);
  }
}

TEST(NelderMead, StaysWithinItsBounds) {
  const Objective falling = [](std::span<const double> x) {
    for (const double v : x) EXPECT_TRUE(v >= -1 && v <= 2) << v;
    return x[0] - 2 * x[1];
  };
  const Minimum m = nelder_mead(falling, Numbers{5, 0}, cube(2, -1, 2));
  EXPECT_NEAR(m.at[0], -1, 1e-6);
  EXPECT_NEAR(m.at[1], 2, 1e-6);
}

TEST(NelderMead, GoesAroundWhatIsNoNumber) {
  const Objective half = [](std::span<const double> x) {
    return x[0] < 0 ? NAN : std::abs(x[0] - 0.25) + x[1] * x[1];
  };
  const Minimum m = nelder_mead(half, Numbers{0.1, 1}, cube(2, -2, 2));
  EXPECT_NEAR(m.at[0], 0.25, 1e-6);
  EXPECT_NEAR(m.at[1], 0, 1e-4);
}

TEST(NelderMead, EndsWhereItMay) {
  int calls = 0;
  const Objective counted = [&](std::span<const double> x) {
    ++calls;
    return rosenbrock(x);
  };
  const Minimum m = nelder_mead(counted, Numbers{-1.2, 1}, cube(2, -5, 5), {.evaluations = 40});
  EXPECT_EQ(m.evaluations, calls);
  EXPECT_LT(calls, 40 + 4);  // a step may shrink, which evaluates reflection, contraction and two
  const Minimum flat =
      nelder_mead([](std::span<const double>) { return 7.0; }, Numbers{0.0}, cube(1, -1, 1));
  EXPECT_EQ(flat.value, 7);
  EXPECT_LT(flat.evaluations, 200);
}

TEST(NelderMead, RefusesWhatIsNoSpace) {
  const Objective f = [](std::span<const double>) { return 0.0; };
  EXPECT_THROW(nelder_mead(f, Numbers{}, Bounds{}), Error);
  EXPECT_THROW(nelder_mead(f, Numbers{0, 0}, cube(1, 0, 1)), Error);
  EXPECT_THROW(nelder_mead(f, Numbers{0}, cube(1, 1, 1)), Error);
  EXPECT_THROW(nelder_mead(f, Numbers{0}, cube(1, 0, INFINITY)), Error);
  EXPECT_THROW(nelder_mead(f, Numbers{0}, Bounds{{0}, {1, 2}}), Error);
}

}  // namespace
}  // namespace ndtrain
