#include "ndp/jobs/mixed_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "ndp/jobs/sampling.h"
#include "tests/runtime/cpu_device.h"
#include "tests/train/small_net.h"

namespace ndtrain::ndp {
namespace {

using testing::cpu;

constexpr int64_t kRows = 40;
constexpr int kSide = 4;

Preprocess preprocess() { return {.img_size = kSide, .resize = kSide}; }

// Row i is i and a bit everywhere, of class i.
TensorDataset counted(DType dtype = DType::kF32) {
  std::vector<double> values;
  for (int64_t i = 0; i < kRows; ++i) {
    for (int k = 0; k < 3 * kSide * kSide; ++k) values.push_back(static_cast<double>(i) + k / 64.0);
  }
  std::vector<int64_t> labels(kRows);
  std::iota(labels.begin(), labels.end(), 0);
  return TensorDataset({Tensor::from_doubles({dtype, {kRows, 3, kSide, kSide}}, values)}, labels);
}

struct Rows {
  std::vector<double> values;
  std::vector<int64_t> labels;
};

Rows fetched(Dataset& data, const std::vector<int64_t>& rows, DType dtype = DType::kF32) {
  const auto n = static_cast<int64_t>(rows.size());
  std::vector<Tensor> inputs = {Tensor({dtype, {n, 3, kSide, kSide}})};
  Rows r{.labels = std::vector<int64_t>(rows.size() * 2)};
  data.fetch(rows, inputs, r.labels);
  r.values = inputs[0].to_doubles();
  return r;
}

std::unique_ptr<MixedRows> mixed_rows(const Augmentation& what, int64_t& epoch,
                                      DType dtype = DType::kF32) {
  return std::make_unique<MixedRows>(std::make_unique<TensorDataset>(counted(dtype)), what,
                                     preprocess(), 7, [&epoch] { return epoch; });
}

std::vector<int64_t> all_rows() {
  std::vector<int64_t> rows(kRows);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

TEST(MixedRows, AreWhatIsDrawnOfEachRowInInputsAndLabelsAlike) {
  int64_t epoch = 2;
  const Augmentation what{.mixup = 1, .cutmix = 1};
  const auto rows = mixed_rows(what, epoch);
  const Rows got = fetched(*rows, all_rows());
  int boxes = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    const Mix m = drawn_mix(what, 7, epoch, i, kRows, kSide);
    double own = 0, mean = 0;
    for (const int64_t k : {0, 1}) {
      const double w = rows->weight(i, k);
      const int64_t label = got.labels[static_cast<size_t>(2 * i + k)];
      if (label == i) own += w;
      mean += w * static_cast<double>(label);
      EXPECT_TRUE(k != 0 || w >= 0.5) << "the larger share is first";
    }
    EXPECT_TRUE(m.other == i || own == m.share) << i;
    EXPECT_NEAR(rows->weight(i, 0) + rows->weight(i, 1), 1, 1e-12);
    double sum = 0;
    for (int k = 0; k < 3 * kSide * kSide; ++k) {
      sum += got.values[static_cast<size_t>(i * 3 * kSide * kSide + k)] - k / 64.0;
    }
    EXPECT_NEAR(sum / (3 * kSide * kSide), mean, 1e-5) << "inputs have the labels' shares";
    boxes += m.box.has_value();
  }
  EXPECT_TRUE(boxes > 5 && boxes < kRows - 5) << boxes;
}

TEST(MixedRows, AreTheSameInAnyBatchAndOthersInEachEpoch) {
  int64_t epoch = 0;
  const auto rows = mixed_rows({.mixup = 0.4, .cutmix = 1}, epoch);
  const Rows whole = fetched(*rows, all_rows());
  for (const int64_t row : {39, 0, 17}) {
    const Rows one = fetched(*rows, {row});
    const auto at = static_cast<size_t>(row), n = one.values.size();
    EXPECT_TRUE(std::ranges::equal(one.values, std::span(whole.values).subspan(at * n, n)));
    EXPECT_EQ(one.labels[0], whole.labels[2 * at]);
  }
  epoch = 1;
  EXPECT_NE(fetched(*rows, all_rows()).values, whole.values);
}

TEST(MixedRows, OfFeaturesInSixteenBitsAreMixedInThirtyTwo) {
  int64_t epoch = 0;
  const Augmentation what{.mixup = 1};
  const Rows wide = fetched(*mixed_rows(what, epoch), all_rows());
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const Rows got = fetched(*mixed_rows(what, epoch, dtype), all_rows(), dtype);
    EXPECT_EQ(got.labels, wide.labels);
    const double step = dtype == DType::kF16 ? 0x1p-10 : 0x1p-7;
    for (size_t i = 0; i < got.values.size(); ++i) {
      ASSERT_NEAR(got.values[i], wide.values[i], 2 * step * (1 + wide.values[i])) << i;
    }
  }
}

TEST(MixedRows, OfWholeNumbersAreRefused) {
  int64_t epoch = 0;
  const auto rows = mixed_rows({.mixup = 1}, epoch, DType::kU8);
  EXPECT_THROW(fetched(*rows, {1}, DType::kU8), Error);
  EXPECT_THROW(mixed_rows({.flip = true}, epoch), Error) << "nothing mixes";
}

// As PyTorch weighs a soft label's classes (CrossEntropyLoss(weight=...)): each by its own.
TEST(MixedRows, WeighEachLabelByItsClass) {
  int64_t epoch = 0;
  std::vector<double> weights;
  for (int64_t i = 0; i < kRows; ++i) weights.push_back(1 + static_cast<double>(i));
  auto weighed = std::make_unique<SampledRows>(std::make_unique<TensorDataset>(counted()), weights,
                                               std::vector<double>{}, 1, [] { return int64_t{0}; });
  MixedRows rows(std::move(weighed), {.mixup = 1}, preprocess(), 7, [&] { return epoch; });
  const Rows got = fetched(rows, all_rows());
  for (int64_t i = 0; i < kRows; ++i) {
    const Mix m = rows.mix_of(i);
    double sum = 0;
    for (const int64_t k : {0, 1}) {
      const double share = (m.share >= 0.5) == (k == 0) ? m.share : 1 - m.share;
      const int64_t label = got.labels[static_cast<size_t>(2 * i + k)];
      EXPECT_NEAR(rows.weight(i, k), share * (1 + static_cast<double>(label)), 1e-9);
      sum += rows.weight(i, k);
    }
    EXPECT_GT(sum, 0);
  }
}

TEST(MixedRows, AreMixedWithAnotherOfTheirShard) {
  int64_t epoch = 0;
  constexpr int64_t kShards = 3;  // of 40 rows, the first has one more
  const MixedRows rows(
      std::make_unique<TensorDataset>(counted()), {.mixup = 1}, preprocess(), 7,
      [&] { return epoch; }, kShards);
  std::set<int64_t> seen;
  for (; epoch < 100; ++epoch) {
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t other = rows.mix_of(row).other;
      ASSERT_TRUE(other >= 0 && other < kRows);
      ASSERT_EQ(other % kShards, row % kShards);
      seen.insert(other);
    }
  }
  EXPECT_EQ(std::ssize(seen), kRows);
}

}  // namespace
}  // namespace ndtrain::ndp
