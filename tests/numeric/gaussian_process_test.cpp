#include "framework/numeric/gaussian_process.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

using Numbers = std::vector<double>;
using Points = std::vector<Numbers>;

// Under known hyper-parameters: mean and deviation at some points, and the likelihood; the greatest
// likelihood of any within the bounds.
struct Golden {
  const char* name;
  Points x;
  Numbers y, lengths;
  double variance, noise;
  Points at;
  Numbers mean, deviation;
  double log_likelihood, greatest;
};

const Golden kGolden[] = {
#include "tests/numeric/golden_gaussian_process.inc"
};

TEST(GaussianProcess, PredictsAsScikitLearnDoes) {
  for (const Golden& g : kGolden) {
    SCOPED_TRACE(g.name);
    GaussianProcess process;
    process.observe(g.x, g.y, {.variance = g.variance, .lengths = g.lengths, .noise = g.noise});
    EXPECT_NEAR(process.log_likelihood(), g.log_likelihood, 1e-9);
    for (size_t i = 0; i < g.at.size(); ++i) {
      const auto p = process.predict(g.at[i]);
      EXPECT_NEAR(p.mean, g.mean[i], 1e-9);
      EXPECT_NEAR(p.deviation, g.deviation[i], 1e-9);
    }
  }
}

TEST(GaussianProcess, FindsAsLikelyHyperParametersAsScikitLearn) {
  for (const Golden& g : kGolden) {
    SCOPED_TRACE(g.name);
    for (uint64_t seed = 0; seed < 5; ++seed) {
      GaussianProcess process;
      process.fit(g.x, g.y, Rng(seed));
      EXPECT_GE(process.log_likelihood(), g.greatest - 1e-4);
      // No more than that either, or the two have other bounds or another formula.
      EXPECT_LE(process.log_likelihood(), g.greatest + 1e-4);
      EXPECT_GE(process.log_likelihood(), g.log_likelihood);
    }
  }
}

TEST(GaussianProcess, OfOneValueIsAClosedForm) {
  GaussianProcess process;
  process.observe(Points{{1}}, Numbers{5}, {.variance = 2, .lengths = {0.5}, .noise = 0.5});
  const double z = std::sqrt(5.0) * 0.25 / 0.5, k = 2 * (1 + z + z * z / 3) * std::exp(-z);
  const auto p = process.predict(Numbers{1.25});
  EXPECT_DOUBLE_EQ(p.mean, 5);  // the one value is the mean
  EXPECT_DOUBLE_EQ(p.deviation, std::sqrt(2 - k * k / 2.5));
  EXPECT_DOUBLE_EQ(process.log_likelihood(), -0.5 * std::log(2 * std::numbers::pi * 2.5));
}

TEST(GaussianProcess, WithoutNoiseItGoesThroughItsValuesAndIsUnsureElsewhere) {
  const Points x = {{0.1}, {0.4}, {0.7}};
  const Numbers y = {3, -1, 2};
  GaussianProcess process;
  process.observe(x, y, {.variance = 1, .lengths = {0.2}, .noise = 1e-10});
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(process.predict(x[i]).mean, y[i], 1e-6);
    EXPECT_LT(process.predict(x[i]).deviation, 1e-3);
  }
  const double deviation = std::sqrt(26.0 / 9);  // of the values
  EXPECT_NEAR(process.predict(Numbers{50}).mean, 4.0 / 3, 1e-9);
  EXPECT_NEAR(process.predict(Numbers{50}).deviation, deviation, 1e-9);
}

TEST(GaussianProcess, RefusesWhatItCannotLearnFrom) {
  GaussianProcess process;
  EXPECT_THROW(process.predict(Numbers{1}), Error);
  EXPECT_THROW(process.fit(Points{}, Numbers{}, Rng(1)), Error);
  EXPECT_THROW(process.fit(Points{{1}}, Numbers{1, 2}, Rng(1)), Error);
  EXPECT_THROW(process.fit(Points{{1}, {1, 2}}, Numbers{1, 2}, Rng(1)), Error);
  EXPECT_THROW(process.fit(Points{{1}}, Numbers{INFINITY}, Rng(1)), Error);
  EXPECT_THROW(process.observe(Points{{1}}, Numbers{1}, {.lengths = {}}), Error);
  EXPECT_THROW(process.observe(Points{{1}}, Numbers{1}, {.lengths = {0}}), Error);
  EXPECT_THROW(process.observe(Points{{1}}, Numbers{1}, {.variance = NAN, .lengths = {1}}), Error);
  EXPECT_THROW(process.observe(Points{{1}, {1}}, Numbers{1, 2}, {.lengths = {1}, .noise = 1e-300}),
               Error);
  process.fit(Points{{1}, {2}}, Numbers{1, 2}, Rng(1));
  EXPECT_THROW(process.predict(Numbers{1, 2}), Error);
}

}  // namespace
}  // namespace ndtrain
