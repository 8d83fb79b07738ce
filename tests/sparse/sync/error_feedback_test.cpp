#include "framework/sparse/sync/error_feedback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "framework/core/error.h"
#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

constexpr int64_t kElements = 3000, kTaken = 40;

ErrorFeedback feedback(std::string_view compressor, DType wire = DType::kF32) {
  const ParameterSlot slot{.name = "w", .shape = {60, 50}, .range = {0, kElements}};
  return {std::span(&slot, 1), make_compressor(compressor, {.rotate = true}), 7, wire};
}

std::vector<float> gradient(int64_t step) {
  const Rng rng(static_cast<uint64_t>(step), "gradient");
  std::vector<float> values(kElements);
  for (int64_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(rng.normal(i));
  return values;
}

// Of whole numbers, which floats add up exactly: sent and left are all there was.
TEST(ErrorFeedback, LosesNothingInAnyWireType) {
  for (const DType wire : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const std::string_view name : compressor_names()) {
      if (make_compressor(name)->takes_all()) continue;  // means of whole numbers are none
      ErrorFeedback f = feedback(name, wire);
      std::vector<double> sum(kElements, 0), sent(kElements, 0);
      CompressorScratch scratch;
      Selection out;
      for (int64_t step = 0; step < 60; ++step) {
        std::vector<float> g = gradient(step);
        for (float& x : g) x = std::round(100 * x);
        for (int64_t i = 0; i < kElements; ++i) sum[i] += g[i];
        f.add(0, g);
        f.take(0, kTaken, scratch, out);
        for (size_t i = 0; i < out.indices.size(); ++i) sent[out.indices[i]] += out.values[i];
      }
      for (int64_t i = 0; i < kElements; ++i) {
        ASSERT_EQ(sent[i] + f.left(0)[i], sum[i]) << name << " " << name_of(wire);
      }
    }
  }
}

// Algorithm 1 of Deep Gradient Compression, with sorting for its thresholds.
TEST(ErrorFeedback, WithMomentumIsDeepGradientCompression) {
  constexpr float kMomentum = 0.75F;
  const ParameterSlot slot{.name = "w", .shape = {kElements}, .range = {0, kElements}};
  ErrorFeedback f({&slot, 1}, make_compressor("topk"), 7, DType::kF32, kMomentum);
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
  ErrorFeedback f = feedback("topk", DType::kF16);
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

}  // namespace
}  // namespace ndtrain
