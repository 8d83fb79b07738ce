#include "framework/numeric/bayesian_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

using Numbers = std::vector<double>;

TEST(ExpectedImprovement, IsThatOfTheNormalDistribution) {
  // The numerical mean of max(best - xi - value, 0).
  const auto integrated = [](double mean, double deviation, double least) {
    double sum = 0;
    constexpr double kStep = 1e-4;
    for (double z = -10; z < 10; z += kStep) {
      const double density = std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi);
      sum += kStep * density * std::max(0.0, least - (mean + deviation * z));
    }
    return sum;
  };
  for (const double mean : {-1.0, 0.5, 3.0}) {
    for (const double deviation : {0.1, 1.0, 4.0}) {
      EXPECT_NEAR(expected_improvement({mean, deviation}, 1, 0.25),
                  integrated(mean, deviation, 0.75), 1e-6);
    }
  }
}

TEST(ExpectedImprovement, OfACertainValueIsItsOwn) {
  EXPECT_EQ(expected_improvement({2, 0}, 5, 0.5), 2.5);
  EXPECT_EQ(expected_improvement({6, 0}, 5, 0.5), 0);
}

// Branin's function: three equal minima of .397887.
double branin(std::span<const double> x) {
  const double pi = std::numbers::pi;
  const double a = x[1] - 5.1 / (4 * pi * pi) * x[0] * x[0] + 5 / pi * x[0] - 6;
  return a * a + 10 * (1 - 1 / (8 * pi)) * std::cos(x[0]) + 10;
}

Minimum search(const Objective& f, const Bounds& bounds, int evaluations, uint64_t seed,
               BayesianSearch::Options options) {
  BayesianSearch search(bounds, Rng(seed), options);
  for (int i = 0; i < evaluations; ++i) {
    const Numbers x = search.ask();
    search.tell(x, f(x));
  }
  return search.best();
}

TEST(BayesianSearch, FindsOneOfBraninsMinimaInFewEvaluations) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const Minimum m =
        search(branin, {{-5, 0}, {10, 15}}, 30, seed, {.xi = 0.01, .candidates = 1000});
    EXPECT_EQ(m.evaluations, 30);
    EXPECT_EQ(m.value, branin(m.at));
    EXPECT_LT(m.value, 0.8) << "seed " << seed;  // the function's mean is 54
  }
}

TEST(BayesianSearch, BeginsInTheMiddleAndGoesWhereItIsUnsure) {
  BayesianSearch search({{1}, {9}}, Rng(4), {});
  EXPECT_EQ(search.ask(), Numbers{5});
  search.tell(Numbers{5}, 1);
  const Numbers second = search.ask();
  EXPECT_GT(std::abs(second[0] - 5), 1);
}

TEST(BayesianSearch, IsAFunctionOfSeedAndAnswers) {
  const Objective f = [](std::span<const double> x) { return std::cos(x[0]); };
  const Bounds bounds{{0}, {10}};
  const BayesianSearch::Options options{.candidates = 200};
  EXPECT_EQ(search(f, bounds, 6, 1, options).at, search(f, bounds, 6, 1, options).at);
  EXPECT_NE(search(f, bounds, 6, 1, options).at, search(f, bounds, 6, 2, options).at);
}

TEST(BayesianSearch, UnitsOfTheValuesDoNotMatter) {
  const Bounds bounds{{0}, {10}};
  const auto asked = [&](double unit) {
    BayesianSearch search(bounds, Rng(1), {.candidates = 500});
    Numbers all;
    for (int i = 0; i < 6; ++i) {
      const Numbers x = search.ask();
      all.push_back(x[0]);
      search.tell(x, unit * (x[0] - 3) * (x[0] - 3));
    }
    return all;
  };
  EXPECT_EQ(asked(1), asked(0x1p-20));
}

TEST(BayesianSearch, OfNothingButTheSameValuesGoesOn) {
  BayesianSearch search({{0}, {1}}, Rng(1), {.candidates = 100});
  for (int i = 0; i < 5; ++i) {
    const Numbers x = search.ask();
    ASSERT_TRUE(x[0] >= 0 && x[0] <= 1);
    search.tell(x, 3);
  }
  EXPECT_EQ(search.best().value, 3);
}

TEST(BayesianSearch, RefusesWhatIsNoAnswer) {
  EXPECT_THROW(BayesianSearch({{1}, {0}}, Rng(1), {}), Error);
  EXPECT_THROW(BayesianSearch({{0}, {1}}, Rng(1), {.candidates = 0}), Error);
  BayesianSearch search({{0}, {1}}, Rng(1), {});
  EXPECT_THROW(search.best(), Error);
  EXPECT_THROW(search.tell(Numbers{2}, 1), Error);
  EXPECT_THROW(search.tell(Numbers{0, 0}, 1), Error);
  EXPECT_THROW(search.tell(Numbers{0}, NAN), Error);
}

}  // namespace
}  // namespace ndtrain
