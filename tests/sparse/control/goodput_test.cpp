#include "framework/sparse/control/goodput.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "framework/core/error.h"
#include "framework/core/limits.h"
#include "framework/core/rng.h"
#include "framework/sparse/selection/compressor.h"
#include "framework/sparse/selection/selection_codec.h"

namespace ndtrain {
namespace {

TEST(Goodput, IsWhatAHandReckons) {
  // 50 of 100 elements: 47 + 50 x 8 = 447 bytes in one packet of 66 more. 1 of 1: 47 + 8 + 66.
  const SelectionSizes small{.elements = {100, 1}, .value_bytes = 4, .index_bytes = 4};
  EXPECT_DOUBLE_EQ(selection_bytes(small, 0.5), 447 + 66 + 121);
  EXPECT_DOUBLE_EQ(goodput_mbps(small, 0.5, 0.01), 634 * 8 / 0.01 / 1e6);
  // 1000 of 4000: 47 + 8000 = 8047 bytes, 6 packets.
  const SelectionSizes larger{.elements = {4000}, .value_bytes = 4, .index_bytes = 4};
  EXPECT_DOUBLE_EQ(selection_bytes(larger, 0.75), 8047 + 6 * 66);
  // Values of two bytes whose indices are known: 47 + 2000.
  const SelectionSizes known{.elements = {4000}, .value_bytes = 2, .index_bytes = 0};
  EXPECT_DOUBLE_EQ(selection_bytes(known, 0.75), 2047 + 2 * 66);
  // 1472 bytes exactly are one packet, one more are two.
  const SelectionSizes full{.elements = {1425}, .value_bytes = 1, .index_bytes = 0};
  EXPECT_DOUBLE_EQ(selection_bytes(full, 0), 1472 + 66);
  const SelectionSizes over{.elements = {1426}, .value_bytes = 1, .index_bytes = 0};
  EXPECT_DOUBLE_EQ(selection_bytes(over, 0), 1473 + 132);
  // At least one element, and what is begun counts: ceil(.001 x 1001) = 2.
  const SelectionSizes few{.elements = {10, 1001}, .value_bytes = 4, .index_bytes = 4};
  EXPECT_DOUBLE_EQ(selection_bytes(few, 0.999), 47 + 8 + 66 + 47 + 16 + 66);
}

TEST(Goodput, KnowsTheCodecsSizesOfRandomIndices) {
  constexpr int64_t kN = 200'000;
  for (const double density : {0.0005, 0.002, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0}) {
    const auto k = static_cast<int64_t>(std::llround(density * kN));
    Selection s{.indices = known_indices(kN, k, Rng(3, "indices"), 0), .values = {}};
    for (int64_t i = 0; i < k; ++i) s.values.push_back(static_cast<float>(i));
    // But for the head of a selection, 4 to 5 bytes, and blocks that are full by chance.
    const auto written =
        static_cast<double>(encode(s, kN, ValueCoding::kF32).size()) - 4 * static_cast<double>(k);
    EXPECT_NEAR(expected_index_bytes(kN, k), written, 0.01 * written + 6) << density;
  }
  const SelectionSizes sizes{.elements = {kN}};
  const double bytes = 47 + std::ceil(kN / 8) + 4.0 * kN / 2;
  EXPECT_DOUBLE_EQ(selection_bytes(sizes, 0.5), bytes + 66 * std::ceil(bytes / 1472));
}

TEST(LeastDrop, IsTheFirstOfAFineGridThatFits) {
  const SelectionSizes fixed{
      .elements = {9408, 64, 36864, 2359296, 512'000, 1000}, .value_bytes = 4, .index_bytes = 4};
  SelectionSizes coded = fixed;
  coded.index_bytes.reset();
  for (const SelectionSizes& sizes : {fixed, coded}) {
    for (const double mbps : {0.5, 3.0, 20.0, 60.0, 100.0, 300.0, 700.0}) {
      constexpr double kSeconds = 0.3, kFine = 1e-5;
      double first = 0;
      while (first < kMostDrop && 8e-6 * selection_bytes(sizes, first) / kSeconds > mbps) {
        first += kFine;
      }
      const double found = least_drop(sizes, kSeconds, mbps);
      EXPECT_NEAR(found, std::min(first, kMostDrop), kFine + 1e-6) << mbps;
      if (found < kMostDrop) {
        EXPECT_LE(goodput_mbps(sizes, found, kSeconds), mbps);
      }
    }
  }
}

TEST(LeastDrop, IsNothingOnAFastLinkAndTheMostOnNone) {
  const SelectionSizes sizes{.elements = {1000}, .value_bytes = 4, .index_bytes = 4};
  const double all = goodput_mbps(sizes, 0, 1);
  EXPECT_EQ(least_drop(sizes, 1, all), 0);
  EXPECT_GT(least_drop(sizes, 1, all * 0.999), 0);
  EXPECT_EQ(least_drop(sizes, 1, 0), kMostDrop);
}

TEST(TrainingDrop, SharesALinkAmongTheOthers) {
  EXPECT_DOUBLE_EQ(training_drop(0.9, 2), 0.9);
  EXPECT_DOUBLE_EQ(training_drop(0.9, 3), 0.95);
  EXPECT_DOUBLE_EQ(training_drop(0, 5), 0.75);
  for (const int ranks : {2, 3, 8})
    EXPECT_NEAR(link_drop(training_drop(0.7, ranks), ranks), 0.7, 1e-12);
  EXPECT_EQ(link_drop(0.1, 8), 0);
  EXPECT_THROW(training_drop(0.5, 1), Error);
  EXPECT_THROW(link_drop(0.5, 1), Error);
}

TEST(Goodput, RefusesWhatIsNoSelection) {
  const SelectionSizes good{.elements = {1, limits::kSparseElements}};
  validate(good);
  for (const int64_t n : {int64_t{0}, int64_t{-1}, limits::kSparseElements + 1}) {
    EXPECT_THROW(validate(SelectionSizes{.elements = {1, n}}), Error) << n;
  }
  EXPECT_THROW(validate(SelectionSizes{}), Error);
  for (const double bad : {0.0, -1.0, double{NAN}, double{INFINITY}}) {
    EXPECT_THROW(validate(SelectionSizes{.elements = {1}, .value_bytes = bad}), Error) << bad;
    EXPECT_THROW(goodput_mbps(good, 0.5, bad), Error) << bad;
  }
  validate(SelectionSizes{.elements = {1}, .index_bytes = 0});
  EXPECT_THROW(validate(SelectionSizes{.elements = {1}, .index_bytes = -1}), Error);
  EXPECT_THROW(validate(SelectionSizes{.elements = {1}, .index_bytes = NAN}), Error);
  for (const double bad : {-0.1, 1.0, double{NAN}}) EXPECT_THROW(selection_bytes(good, bad), Error);
  EXPECT_THROW(expected_index_bytes(10, 0), Error);
  EXPECT_THROW(expected_index_bytes(10, 11), Error);
}

}  // namespace
}  // namespace ndtrain
