// What holds of every compressor that takes elements as they are.
#include "framework/sparse/selection/compressor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <numeric>

#include "framework/core/error.h"
#include "framework/core/limits.h"
#include "framework/sparse/selection/magnitude.h"
#include "tests/sparse/selection/gradients.h"

namespace ndtrain {
namespace {

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

double magnitudes(std::span<const float> values) {
  double sum = 0;
  for (const float x : values) sum += std::fabs(x);
  return sum;
}

struct Case {
  std::string_view name;
  bool rotate;
};

class AnyCompressor : public ::testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Compressor> made(InstructionSet set) const {
    return make_compressor(GetParam().name, {.rotate = GetParam().rotate, .instructions = set});
  }
  std::unique_ptr<Compressor> made() const { return made(instruction_sets_here().back()); }
};

TEST_P(AnyCompressor, TakesExactlyKAndWhatIsLeftIsTheRest) {
  const auto compressor = made();
  CompressorScratch scratch;
  for (const int64_t n : {1, 2, 15, 16, 17, 33, 1000, 17001}) {
    for (const double part : {0.0, 0.01, 0.3, 0.99, 1.0, 2.0}) {
      const int64_t k = std::max<int64_t>(1, static_cast<int64_t>(part * static_cast<double>(n)));
      CompressorState state;
      for (int round = 0; round < 4; ++round) {
        const std::vector<float> before =
            round == 3 ? wild_gradient(n, n) : gradient(n, n * 10 + round);
        std::vector<float> values = before;
        Selection out;
        compressor->take(values, k, Rng(3, "w"), state, scratch, out);
        ASSERT_EQ(static_cast<int64_t>(out.indices.size()), std::min(k, n));
        ASSERT_EQ(out.values.size(), out.indices.size());
        for (size_t i = 1; i < out.indices.size(); ++i) {
          ASSERT_LT(out.indices[i - 1], out.indices[i]);
        }
        for (size_t i = 0; i < out.indices.size(); ++i) {
          const uint32_t at = out.indices[i];
          ASSERT_LT(at, n);
          ASSERT_EQ(std::bit_cast<uint32_t>(values[at]), 0U);
          values[at] = out.values[i];
        }
        ASSERT_TRUE(same_bits(values, before)) << n << " " << k << " " << round;
        ASSERT_EQ(state.step, round + 1);
      }
    }
  }
}

// As they are used: what is left is added to the next gradient.
TEST_P(AnyCompressor, GivesTheSameForEveryInstructionSet) {
  constexpr int64_t kElements = 20011;
  struct One {
    std::unique_ptr<Compressor> compressor;
    std::vector<float> left;
    CompressorState state = {};
    CompressorScratch scratch = {};
    Selection out = {};
  };
  std::vector<One> all;
  for (const InstructionSet set : instruction_sets_here()) {
    all.push_back({.compressor = made(set), .left = std::vector<float>(kElements, 0)});
  }
  for (int round = 0; round < 40; ++round) {
    const std::vector<float> now = gradient(kElements, round);
    for (One& one : all) {
      for (int64_t i = 0; i < kElements; ++i) one.left[i] += now[i];
      one.compressor->take(one.left, 200, Rng(3, "w"), one.state, one.scratch, one.out);
      EXPECT_EQ(one.out, all[0].out) << round;
      EXPECT_EQ(one.state.threshold, all[0].state.threshold);
      EXPECT_EQ(one.state.begin, all[0].state.begin);
    }
  }
}

// Sent and left are all there was; of whole numbers in floats, exactly.
TEST_P(AnyCompressor, LosesNothingOverManySteps) {
  constexpr int64_t kElements = 3001;
  const auto compressor = made();
  std::vector<float> left(kElements, 0), sent(kElements, 0), sum(kElements, 0);
  CompressorState state;
  CompressorScratch scratch;
  for (int round = 0; round < 200; ++round) {
    const Rng rng(round, "whole");
    for (int64_t i = 0; i < kElements; ++i) {
      const auto g = static_cast<float>(static_cast<int64_t>(rng.bits(i) % 21) - 10);
      left[i] += g;
      sum[i] += g;
    }
    Selection out;
    compressor->take(left, 30, Rng(3, "w"), state, scratch, out);
    for (size_t i = 0; i < out.indices.size(); ++i) sent[out.indices[i]] += out.values[i];
  }
  for (int64_t i = 0; i < kElements; ++i) ASSERT_EQ(sent[i] + left[i], sum[i]) << i;
}

TEST_P(AnyCompressor, RecoversFromGradientsThatAreNotFiniteOrZero) {
  constexpr int64_t kElements = 4000, kTaken = 100;
  const auto compressor = made();
  CompressorState state;
  CompressorScratch scratch;
  Selection out;
  std::vector<float> values(kElements, 0.0F);
  compressor->take(values, kTaken, Rng(1), state, scratch, out);
  values.assign(kElements, NAN);
  compressor->take(values, kTaken, Rng(1), state, scratch, out);
  // From now on sound ones: what is sent is again more than what any would be.
  double taken = 0, all = 0;
  for (int round = 0; round < 600; ++round) {
    values = gradient(kElements, round);
    if (round >= 500) all += magnitudes(values);
    compressor->take(values, kTaken, Rng(1), state, scratch, out);
    if (round >= 500) taken += magnitudes(out.values);
  }
  EXPECT_TRUE(std::isfinite(state.threshold));
  const double by_chance = all * static_cast<double>(kTaken) / static_cast<double>(kElements);
  EXPECT_GT(taken, (GetParam().name == "randomk" ? 0.8 : 1.8) * by_chance);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string_view name : compressor_names()) {
    if (make_compressor(name)->takes_all()) continue;  // signs_test.cpp
    all.push_back({name, false});
    all.push_back({name, true});
  }
  return all;
}

std::string text_of(const ::testing::TestParamInfo<Case>& c) {
  std::string name(c.param.name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name + (c.param.rotate ? "_rotating" : "");
}

INSTANTIATE_TEST_SUITE_P(All, AnyCompressor, ::testing::ValuesIn(cases()), text_of);

TEST(Compressors, TopKIsOfTheLargestAndOfEqualOnesTheFirst) {
  for (const int64_t k : {1, 7, 100, 999}) {
    std::vector<float> values = wild_gradient(1000, 5);
    std::vector<uint32_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return magnitude(values[a]) > magnitude(values[b]);
    });
    order.resize(k);
    std::sort(order.begin(), order.end());
    CompressorState state;
    CompressorScratch scratch;
    Selection out;
    make_compressor("topk")->take(values, k, Rng(1), state, scratch, out);
    EXPECT_EQ(out.indices, order);
  }
}

TEST(Compressors, AreKnownByNameOrRefused) {
  for (const std::string_view name : compressor_names()) EXPECT_TRUE(make_compressor(name));
  try {
    make_compressor("top-k");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "there is no compressor 'top-k'; there are topk, randomk, threshold-v, "
                 "threshold-v16, gaussian, signum, efsignum");
  }
  std::vector<float> values(4);
  CompressorState state;
  CompressorScratch scratch;
  Selection out;
  EXPECT_THROW(make_compressor("topk")->take(values, 0, Rng(1), state, scratch, out), Error);
}

TEST(Compressors, SendWhatIsNotDroppedSharedByTheRanks) {
  EXPECT_EQ(elements_to_send(1000, 0, 4), 1000);
  EXPECT_EQ(elements_to_send(1000, 0.75, 1), 250);
  EXPECT_EQ(elements_to_send(1000, 0.75, 4), 62);
  EXPECT_EQ(elements_to_send(7, 0.999, 2), 1);
  EXPECT_EQ(elements_to_send(limits::kSparseElements, 0.5, 1), limits::kSparseElements / 2);
  EXPECT_EQ(elements_to_send(limits::kSparseElements - 1, 0, 1), limits::kSparseElements - 1);
  EXPECT_THROW(elements_to_send(limits::kSparseElements + 1, 0.5, 1), Error);
  EXPECT_THROW(elements_to_send(0, 0.5, 1), Error);
  EXPECT_THROW(elements_to_send(5, 1, 1), Error);
  EXPECT_THROW(elements_to_send(5, -0.1, 1), Error);
  EXPECT_THROW(elements_to_send(5, NAN, 1), Error);
  EXPECT_THROW(elements_to_send(5, 0.5, 0), Error);
}

}  // namespace
}  // namespace ndtrain
