#include "framework/sparse/plan/convergence_search.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>
#include <vector>

#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;
using Points = std::vector<ConvergenceProfile::Point>;

constexpr ConvergenceSearch kSearch = {
    .smallest_batch = 16, .largest_batch = 256, .multiple = 2, .seed = 3};

// A bowl whose least penalty is at 128 rows and a drop of .9.
double penalty(const ConvergenceSearch::Point& p) {
  const double batch = static_cast<double>(p.batch) / 256 - 0.5;
  const double drop = -std::log10(1 - p.drop) / 3 - 1.0 / 3;
  return 0.1 + batch * batch + drop * drop;
}

Points measured(const ConvergenceSearch& search, int count) {
  Points points;
  while (std::ssize(points) < count) {
    const ConvergenceSearch::Point p = search.next(points);
    points.push_back({static_cast<double>(p.batch) / static_cast<double>(search.largest_batch),
                      p.drop, penalty(p)});
  }
  return points;
}

TEST(ConvergenceSearch, TheSmallestBatchOfWholeGradientsIsFirst) {
  EXPECT_EQ(kSearch.next({}), (ConvergenceSearch::Point{16, 0}));
}

TEST(ConvergenceSearch, PointsAreWithinTheBoundsAndEachIsAnother) {
  const Points points = measured(kSearch, 30);
  std::set<std::pair<double, double>> all;
  for (const ConvergenceProfile::Point& p : points) {
    const double rows = p.batch * 256;
    EXPECT_EQ(std::fmod(rows, 2), 0);
    EXPECT_GE(rows, 16);
    EXPECT_LE(rows, 256);
    EXPECT_GE(p.second, 0);
    EXPECT_LE(p.second, 0.999);
    EXPECT_NEAR(p.second * 1e4, std::round(p.second * 1e4), 1e-6) << "of 4 digits";
    EXPECT_TRUE(all.insert({p.batch, p.second}).second);
  }
}

TEST(ConvergenceSearch, IsTheSameWhereverItIsTakenUp) {
  const Points whole = measured(kSearch, 12);
  for (size_t n = 0; n < whole.size(); ++n) {
    const ConvergenceSearch::Point p = kSearch.next(std::span(whole).first(n));
    EXPECT_EQ(static_cast<double>(p.batch) / 256, whole[n].batch);
    EXPECT_EQ(p.drop, whole[n].second);
  }
  ConvergenceSearch other = kSearch;
  other.seed = 4;
  EXPECT_NE(measured(other, 3)[1], whole[1]);
}

TEST(ConvergenceSearch, BehindTheRandomOnesItLooksWhereTheLossIsLeast) {
  const Points points = measured(kSearch, 30);
  double least_at_random = 1, least = 1;
  for (size_t i = 0; i < points.size(); ++i) {
    if (i <= 5) least_at_random = std::min(least_at_random, points[i].penalty);
    least = std::min(least, points[i].penalty);
  }
  EXPECT_LT(least - 0.1, 0.1 * (least_at_random - 0.1));
  EXPECT_LT(least, 0.101);
}

TEST(ConvergenceSearch, WhereThereIsNoOtherPointOneIsTakenAgain) {
  ConvergenceSearch few = kSearch;
  few.smallest_batch = 2;
  few.largest_batch = 4;
  few.most_drop = 0.0001;
  Points points = measured(few, 4);
  std::set<std::pair<double, double>> all;
  for (const ConvergenceProfile::Point& p : points) all.insert({p.batch, p.second});
  EXPECT_EQ(all.size(), 4u);
  const ConvergenceSearch::Point again = few.next(points);
  EXPECT_TRUE(all.contains({static_cast<double>(again.batch) / 4, again.drop}));
}

TEST(ConvergenceSearch, BoundsThatCannotBeAreRefused) {
  const auto refused = [](const std::function<void(ConvergenceSearch&)>& change) {
    ConvergenceSearch s = kSearch;
    change(s);
    return testing::error_of([&] { (void)s.next({}); });
  };
  EXPECT_THAT(refused([](auto& s) { s.smallest_batch = 256; }), HasSubstr("batches of 256 to 256"));
  EXPECT_THAT(refused([](auto& s) { s.multiple = 17; }), HasSubstr("in multiples of 17"));
  EXPECT_THAT(refused([](auto& s) { s.most_drop = 1; }), HasSubstr("dropped is 1"));
  EXPECT_THAT(refused([](auto& s) { s.random_points = -1; }), HasSubstr("-1 random points"));
}

}  // namespace
}  // namespace ndtrain
