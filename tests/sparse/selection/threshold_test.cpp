// The compressors that go by a threshold against their definitions, written as plainly as they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "framework/sparse/selection/compressor.h"
#include "tests/sparse/selection/gradients.h"

namespace ndtrain {
namespace {

using Indices = std::vector<uint32_t>;

Indices from(int64_t begin, int64_t n) {
  Indices order(n);
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + begin, order.end());
  return order;
}

float kth_largest(std::vector<float> values, int64_t k) {
  for (float& x : values) x = std::fabs(x);
  std::sort(values.begin(), values.end(), std::greater<>());
  return values[k];
}

// threshold-v, element by element.
struct PlainThreshold {
  bool rotate = false;
  float t = -1;
  int64_t begin = 0;

  Indices first(const std::vector<float>& values, int64_t k, float threshold, bool& is_short,
                bool& early) {
    const auto n = static_cast<int64_t>(values.size());
    std::set<uint32_t> taken;
    int64_t scanned = 0;
    const Indices order = from(begin, n);
    while (scanned < n && static_cast<int64_t>(taken.size()) < k) {
      const uint32_t i = order[scanned++];
      if (std::fabs(values[i]) >= threshold) taken.insert(i);
    }
    const auto found = static_cast<int64_t>(taken.size());
    is_short = found < k;
    early = !is_short && scanned < n;
    for (int64_t j = 0; j < n && static_cast<int64_t>(taken.size()) < k; ++j)
      taken.insert(order[j]);
    if (rotate) begin = (begin + scanned) % n;
    return {taken.begin(), taken.end()};
  }

  Indices take(const std::vector<float>& values, int64_t k) {
    if (t < 0) t = kth_largest(values, k - 1);
    bool is_short = false, early = false;
    Indices taken = first(values, k, t, is_short, early);
    float largest = 0;
    for (const float x : values) largest = std::max(largest, std::fabs(x));
    if (is_short) t *= 0.99F;
    if (early) t += 0.01F * largest;
    return taken;
  }
};

// threshold-v16, block by block.
struct PlainBlocks {
  bool rotate = false;
  float t = -1, a = 0;
  int64_t begin = 0;  // a block

  static std::vector<float> sums(const std::vector<float>& values) {
    std::vector<float> all((values.size() + 15) / 16);
    block_sums(values, all, InstructionSet::kBaseline);  // scan_test has its definition
    return all;
  }

  Indices take(const std::vector<float>& values, int64_t k) {
    const std::vector<float> s = sums(values);
    const auto n = static_cast<int64_t>(values.size()), blocks = static_cast<int64_t>(s.size());
    if (t < 0) {
      t = kth_largest(s, std::min(k / 16, blocks - 1));
      a = 0.01F * t;
    }
    Indices taken;
    const auto add = [&](uint32_t block) {  // the last one is cut
      const int64_t at = int64_t{block} * 16;
      for (int64_t i = at; i < std::min(n, at + 16); ++i) {
        if (static_cast<int64_t>(taken.size()) < k) taken.push_back(static_cast<uint32_t>(i));
      }
    };
    const Indices order = from(begin, blocks);
    std::vector<bool> in(blocks, false);
    int64_t scanned = 0;
    while (scanned < blocks && static_cast<int64_t>(taken.size()) < k) {
      const uint32_t b = order[scanned++];
      if (s[b] < t) continue;
      in[b] = true;
      add(b);
    }
    if (rotate) begin = (begin + scanned) % blocks;
    if (static_cast<int64_t>(taken.size()) == k) {
      t += a;
    } else {
      Indices others;
      for (uint32_t b = 0; b < blocks; ++b) {
        if (!in[b]) others.push_back(b);
      }
      std::stable_sort(others.begin(), others.end(),
                       [&](uint32_t x, uint32_t y) { return s[x] > s[y]; });
      for (const uint32_t b : others) add(b);
      t *= 0.99F;
    }
    std::sort(taken.begin(), taken.end());
    return taken;
  }
};

// As they are used: what is not taken comes back with the next gradient.
template <typename Plain>
void follows(std::string_view name, int64_t n, int64_t k, bool rotate) {
  const auto compressor = make_compressor(name, {.rotate = rotate});
  Plain plain{.rotate = rotate};
  std::vector<float> left(n, 0);
  CompressorState state;
  CompressorScratch scratch;
  int rises = 0, falls = 0;
  for (int round = 0; round < 150; ++round) {
    const std::vector<float> now = gradient(n, 1000 + round);
    // There are no more from some round on: what is found gets less.
    for (int64_t i = 0; i < n && round < 40; ++i) left[i] += now[i];
    const float before = plain.t;
    const Indices expected = plain.take(left, k);
    Selection out;
    compressor->take(left, k, Rng(1), state, scratch, out);
    ASSERT_EQ(out.indices, expected) << name << " " << n << " " << k << " round " << round;
    ASSERT_EQ(state.threshold, plain.t);
    rises += plain.t > before && round > 0 ? 1 : 0;
    falls += plain.t < before ? 1 : 0;
  }
  if (k < n / 4 && n > 100) {
    EXPECT_GT(rises, 10);
    EXPECT_GT(falls, 10);
  }
}

TEST(ThresholdV, TakesWhatItsDefinitionTakes) {
  for (const bool rotate : {false, true}) {
    follows<PlainThreshold>("threshold-v", 2003, 40, rotate);
    follows<PlainThreshold>("threshold-v", 20000, 200, rotate);
    follows<PlainThreshold>("threshold-v", 33, 8, rotate);
    follows<PlainThreshold>("threshold-v", 500, 499, rotate);
  }
}

TEST(ThresholdV16, TakesWhatItsDefinitionTakes) {
  for (const bool rotate : {false, true}) {
    follows<PlainBlocks>("threshold-v16", 2003, 40, rotate);
    follows<PlainBlocks>("threshold-v16", 20000, 199, rotate);
    follows<PlainBlocks>("threshold-v16", 33, 8, rotate);
    follows<PlainBlocks>("threshold-v16", 17, 16, rotate);
    follows<PlainBlocks>("threshold-v16", 505, 504, rotate);
    follows<PlainBlocks>("threshold-v16", 505, 500, rotate);
  }
}

// Of sums that are equal the lower blocks fill up, and the last of them is cut.
TEST(ThresholdV16, FillsUpWithTheLowerOfEqualBlocks) {
  std::vector<float> values(96, 1.0F);
  for (int i = 0; i < 16; ++i) values[16 * 4 + i] = 9.0F;
  CompressorState state{.threshold = 100, .increment = 1};
  CompressorScratch scratch;
  Selection out;
  make_compressor("threshold-v16")->take(values, 40, Rng(1), state, scratch, out);
  Indices expected(16 + 8);
  std::iota(expected.begin(), expected.end(), 0);
  for (uint32_t i = 64; i < 80; ++i) expected.push_back(i);
  EXPECT_EQ(out.indices, expected);
  EXPECT_EQ(state.threshold, 99.0F);
}

TEST(Gaussian, TakesAboutWhatItEstimatesAndThenFillsUp) {
  // Normal values: the threshold of one in ten is 1.645 deviations.
  constexpr int64_t kElements = 100000, kTaken = 10000;
  const Rng rng(1, "normal");
  std::vector<float> values(kElements);
  for (int64_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(3 * rng.normal(i));
  const std::vector<float> before = values;
  CompressorState state;
  CompressorScratch scratch;
  Selection out;
  make_compressor("gaussian")->take(values, kTaken, Rng(1), state, scratch, out);
  int64_t above = 0;
  for (const float x : out.values) above += std::fabs(x) > 3 * 1.645 ? 1 : 0;
  EXPECT_GT(above, kTaken * 95 / 100);
  // What is taken besides are the first of the others.
  PlainThreshold plain;
  bool is_short = false, early = false;
  double mean = 0, squares = 0;
  for (const float x : before) mean += x / static_cast<double>(kElements);
  for (const float x : before) squares += (x - mean) * (x - mean);
  const double t = std::fabs(mean) + std::sqrt(squares / kElements) * 1.6448536269514722;
  EXPECT_EQ(out.indices, plain.first(before, kTaken, static_cast<float>(t), is_short, early));
}

}  // namespace
}  // namespace ndtrain
