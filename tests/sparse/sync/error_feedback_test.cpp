#include "framework/sparse/sync/error_feedback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include "framework/core/error.h"
#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

constexpr int64_t kElements = 3000, kTaken = 40;

ErrorFeedback feedback(std::string_view compressor, ValueCoding wire = ValueCoding::kF32) {
  const ParameterSlot slot{.name = "w", .shape = {60, 50}, .range = {0, kElements}};
  return {std::span(&slot, 1), make_compressor(compressor, {.rotate = true}), 7, wire};
}

std::vector<float> gradient(int64_t step) {
  const Rng rng(static_cast<uint64_t>(step), "gradient");
  std::vector<float> values(kElements);
  for (int64_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(rng.normal(i));
  return values;
}

// Of whole numbers, which floats add up exactly: sent and left are all there was. What integers
// leave are none: there a gradient is added with a rounding, and nothing else is lost.
TEST(ErrorFeedback, LosesNothingInAnyWireType) {
  for (const ValueCoding wire : value_codings()) {
    const bool whole = wire != ValueCoding::kInt8 && wire != ValueCoding::kInt4;
    for (const std::string_view name : compressor_names()) {
      if (make_compressor(name)->takes_all()) continue;  // means of whole numbers are none
      ErrorFeedback f = feedback(name, wire);
      std::vector<double> sum(kElements, 0), sent(kElements, 0), bound(kElements, 0);
      CompressorScratch scratch;
      Selection out;
      for (int64_t step = 0; step < 60; ++step) {
        std::vector<float> g = gradient(step);
        for (float& x : g) x = std::round(100 * x);
        for (int64_t i = 0; i < kElements; ++i) sum[i] += g[i];
        f.add(0, g);
        for (int64_t i = 0; i < kElements; ++i) {
          bound[i] += whole ? 0 : std::abs(f.left(0)[i]) * 0x1p-24;
        }
        f.take(0, kTaken, scratch, out);
        for (size_t i = 0; i < out.indices.size(); ++i) sent[out.indices[i]] += out.values[i];
      }
      for (int64_t i = 0; i < kElements; ++i) {
        ASSERT_LE(std::abs(sent[i] + f.left(0)[i] - sum[i]), bound[i])
            << name << " " << name_of(wire);
      }
    }
  }
}

// However it knows what compressors look at: by a tensor whose last block is short, where something
// was put back, restored or taken twice, too.
TEST(ErrorFeedback, TakesWhatTheCompressorWouldOfTheSum) {
  constexpr int64_t kShort = kElements - 5;
  const ParameterSlot slot{.name = "w", .shape = {kShort}, .range = {0, kShort}};
  for (const std::string_view name : compressor_names()) {
    const std::unique_ptr<Compressor> compressor = make_compressor(name, {.rotate = true});
    ErrorFeedback f({&slot, 1}, make_compressor(name, {.rotate = true}), 7, ValueCoding::kF32);
    std::vector<float> left(kShort, 0);
    CompressorState state;
    CompressorScratch scratch, others;
    Selection out, expected;
    const Rng rng(7, "w");
    for (int64_t step = 0; step < 60; ++step) {
      std::vector<float> g = gradient(step);
      g.resize(kShort);
      f.add(0, g);
      for (int64_t i = 0; i < kShort; ++i) left[i] += g[i];
      if (step == 20) f.restore(f.state());
      if (step == 30) {
        const size_t first[] = {0};
        f.put_back(0, out, first);
        left[out.indices[0]] += out.values[0];
      }
      for (int times = step % 7 == 6 ? 2 : 1; times > 0; --times) {
        f.take(0, kTaken, scratch, out);
        expected = {};
        compressor->take(left, kTaken, rng, state, others, expected);
        ASSERT_EQ(out.indices, expected.indices) << name << " at step " << step;
        ASSERT_EQ(out.values, expected.values) << name << " at step " << step;
      }
      ASSERT_TRUE(std::ranges::equal(f.left(0), left)) << name << " at step " << step;
    }
  }
}

// Blocks of scale 4, whatever is left: all numbers stay whole.
TEST(ErrorFeedback, OfIntegersWithAnExactScaleIsExact) {
  for (const auto& [wire, block, most] :
       {std::tuple(ValueCoding::kInt8, 256, 127), std::tuple(ValueCoding::kInt4, 64, 7)}) {
    constexpr int64_t kAll = 1000;
    const ParameterSlot slot{.name = "w", .shape = {kAll}, .range = {0, kAll}};
    ErrorFeedback f({&slot, 1}, make_compressor("topk"), 7, wire);
    std::vector<double> sum(kAll, 0), sent(kAll, 0);
    CompressorScratch scratch;
    Selection out;
    for (int64_t step = 0; step < 50; ++step) {
      const Rng rng(static_cast<uint64_t>(step), "whole");
      std::vector<float> g(kAll);
      const int64_t least = int64_t{-4} * (most - 1);
      for (int64_t i = 0; i < kAll; ++i) {
        const auto drawn = static_cast<int64_t>(rng.bits(static_cast<uint64_t>(i)) >> 1);
        g[i] = static_cast<float>(i % block == 0 ? int64_t{4} * most
                                                 : least + drawn % (1 - 2 * least));
        sum[i] += g[i];
      }
      f.add(0, g);
      f.take(0, kAll, scratch, out);
      for (int64_t i = 0; i < kAll; ++i) {
        ASSERT_EQ(std::fmod(out.values[i], 4), 0);
        ASSERT_LE(std::abs(f.left(0)[i]), 2);
        sent[i] += out.values[i];
      }
      EXPECT_NE(*std::ranges::max_element(f.left(0)), 0);
    }
    for (int64_t i = 0; i < kAll; ++i) ASSERT_EQ(sent[i] + f.left(0)[i], sum[i]) << i;
  }
}

// Algorithm 1 of Deep Gradient Compression, with sorting for its thresholds.
TEST(ErrorFeedback, WithMomentumIsDeepGradientCompression) {
  constexpr float kMomentum = 0.75F;
  const ParameterSlot slot{.name = "w", .shape = {kElements}, .range = {0, kElements}};
  ErrorFeedback f({&slot, 1}, make_compressor("topk"), 7, ValueCoding::kF32, kMomentum);
  std::vector<float> u(kElements, 0), v(kElements, 0);
  CompressorScratch scratch;
  Selection out;
  for (int64_t step = 0; step < 40; ++step) {
    if (step == 20) {
      const auto state = f.state();
      f.forget();
      for (const float x : f.left(0)) ASSERT_EQ(x, 0);
      f.restore(state);
    }
    const std::vector<float> g = gradient(step);
    f.add(0, g);
    f.take(0, kTaken, scratch, out);
    std::vector<uint32_t> order(kElements);
    for (uint32_t i = 0; i < kElements; ++i) {
      order[i] = i;
      u[i] = kMomentum * u[i] + g[i];
      v[i] += u[i];
    }
    std::ranges::stable_sort(order, std::greater(), [&](uint32_t i) { return std::abs(v[i]); });
    order.resize(kTaken);
    std::ranges::sort(order);
    ASSERT_EQ(out.indices, order) << "step " << step;
    for (size_t i = 0; i < order.size(); ++i) {
      ASSERT_EQ(out.values[i], v[order[i]]);
      u[order[i]] = v[order[i]] = 0;
    }
  }
}

TEST(ErrorFeedback, SendsTheLargestThatAWireTypeHolds) {
  ErrorFeedback f = feedback("topk", ValueCoding::kF16);
  std::vector<float> g(kElements, 0);
  g[5] = -1e6F;
  f.add(0, g);
  CompressorScratch scratch;
  Selection out;
  f.take(0, 1, scratch, out);
  EXPECT_EQ(out, (Selection{{5}, {-65504}}));
  EXPECT_EQ(f.left(0)[5], -1e6F + 65504);
}

TEST(ErrorFeedback, GoesOnFromItsStateAsIfUnbroken) {
  for (const std::string_view name : compressor_names()) {
    ErrorFeedback unbroken = feedback(name), resumed = feedback(name);
    CompressorScratch scratch;
    Selection out, after;
    for (int64_t step = 0; step < 30; ++step) {
      if (step == 15) resumed.restore(unbroken.state());
      unbroken.add(0, gradient(step));
      unbroken.take(0, kTaken, scratch, out);
      if (step < 15) continue;
      resumed.add(0, gradient(step));
      resumed.take(0, kTaken, scratch, after);
      ASSERT_EQ(out, after) << name << " " << step;
    }
  }
  EXPECT_THAT(error_of([] { feedback("topk").restore({}); }), HasSubstr("'w.residual' is missing"));
}

TEST(ErrorFeedback, HasNoPiecesOfSigns) {
  const ParameterSlot slot{.name = "w", .shape = {kElements}, .range = {0, kElements}};
  const auto of = [&](const char* compressor, ErrorFeedback::Pieces pieces) {
    return error_of([&] {
      ErrorFeedback({&slot, 1}, make_compressor(compressor), 7, ValueCoding::kF32, 0, pieces);
    });
  };
  EXPECT_THAT(of("signum", {.count = 2}), HasSubstr("signs are of all elements"));
  EXPECT_THAT(of("topk", {.count = 2, .rank = 2}), HasSubstr("rank 2 of 2 pieces"));
}

// Of two elements by three ranks: one of them has nothing to take.
TEST(ErrorFeedback, PiecesMayBeEmpty) {
  const ParameterSlot slot{.name = "w", .shape = {2}, .range = {0, 2}};
  std::vector<int64_t> taken;
  for (int rank = 0; rank < 3; ++rank) {
    ErrorFeedback f({&slot, 1}, make_compressor("topk"), 7, ValueCoding::kF32, 0,
                    {.count = 3, .rank = rank});
    f.add(0, std::vector<float>{1, 2});
    CompressorScratch scratch;
    Selection out;
    const int64_t expected = f.elements(0, 1, rank);
    f.take(0, 1, scratch, out);
    EXPECT_EQ(std::ssize(out.indices), expected);
    taken.push_back(expected);
  }
  EXPECT_EQ(taken, (std::vector<int64_t>{0, 1, 1}));
}

}  // namespace
}  // namespace ndtrain
