#include "framework/numeric/line.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/rng.h"

namespace ndtrain {
namespace {

using Numbers = std::vector<double>;

double squares(const Line& line, const Numbers& x, const Numbers& y, const Numbers& w) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double off = line.at_zero + line.slope * x[i] - y[i];
    sum += w[i] * off * off;
  }
  return sum;
}

TEST(Line, GoesThroughPointsOfALine) {
  const Line line = fit_rising_line(Numbers{0, 1, 5}, Numbers{2, 2.5, 4.5}, Numbers{1, 7, 2});
  EXPECT_NEAR(line.at_zero, 2, 1e-14);
  EXPECT_NEAR(line.slope, 0.5, 1e-14);
}

TEST(Line, LargeNumbersDoNotCancel) {
  const Line line = fit_rising_line(Numbers{1e9, 1e9 + 1, 1e9 + 2},
                                    Numbers{1e3, 1e3 + 1e-6, 1e3 + 2e-6}, Numbers{1, 1, 1});
  EXPECT_NEAR(line.slope, 1e-6, 1e-12);
}

TEST(Line, NoLineThatIsAllowedIsNearer) {
  int on_an_edge = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng(seed);
    Numbers x, y, w;
    for (int i = 0; i < 6; ++i) {
      x.push_back(10 * rng.next_uniform());
      y.push_back(3 * rng.next_uniform() + (seed % 3 == 0 ? x.back() : 0));
      w.push_back(0.1 + rng.next_uniform());
    }
    const Line line = fit_rising_line(x, y, w);
    EXPECT_GE(line.at_zero, 0);
    EXPECT_GE(line.slope, 0);
    on_an_edge += line.at_zero == 0 || line.slope == 0 ? 1 : 0;
    const double least = squares(line, x, y, w);
    for (int i = 0; i < 200; ++i) {
      const Line other{.at_zero = std::abs(line.at_zero + 0.1 * rng.next_normal()),
                       .slope = std::abs(line.slope + 0.1 * rng.next_normal())};
      EXPECT_GE(squares(other, x, y, w), least * (1 - 1e-12)) << "seed " << seed;
    }
  }
  EXPECT_GT(on_an_edge, 10);
  EXPECT_LT(on_an_edge, 90);
}

TEST(Line, RefusesWhatDeterminesNone) {
  EXPECT_THROW(fit_rising_line({}, {}, {}), Error);
  EXPECT_THROW(fit_rising_line(Numbers{1, 1}, Numbers{1, 2}, Numbers{1, 1}), Error);
  EXPECT_THROW(fit_rising_line(Numbers{1, 2}, Numbers{1}, Numbers{1, 1}), Error);
  EXPECT_THROW(fit_rising_line(Numbers{1, 2}, Numbers{1, 2}, Numbers{1, 0}), Error);
  EXPECT_THROW(fit_rising_line(Numbers{1, 2}, Numbers{1, NAN}, Numbers{1, 1}), Error);
  EXPECT_THROW(fit_rising_line(Numbers{1, 2}, Numbers{1, -1}, Numbers{1, 1}), Error);
}

}  // namespace
}  // namespace ndtrain
