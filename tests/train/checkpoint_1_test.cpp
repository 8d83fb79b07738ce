#include "framework/train/checkpoint_1.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <tuple>

#include "framework/core/fs.h"
#include "framework/train/trainer.h"
#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"
#include "tests/support/paths.h"

namespace ndtrain {
namespace {

using testing::add_weight;
using testing::cpu;
using testing::error_of;
using ::testing::HasSubstr;
using testing::random_tensor;

// Two layers, and a training of them by Adam that was stopped in its second epoch, behind step 5 of
// 6, by the last version that wrote format 1.
const std::string kOld = support::source_path("/tests/train/golden/checkpoint_1.safetensors");
const std::vector<std::string> kTrained = {"fc2.w", "fc1.w", "fc2.b", "fc1.b"};

Trainer begun() {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 4}}};
  m.outputs = {"logits"};
  add_weight(m, "fc1.w", {5, 4});
  add_weight(m, "fc1.b", {5});
  add_weight(m, "fc2.w", {3, 5});
  add_weight(m, "fc2.b", {3});
  m.nodes = {{"Gemm", {"x", "fc1.w", "fc1.b"}, {"h"}, {{"transB", int64_t{1}}}},
             {"Relu", {"h"}, {"r"}, {}},
             {"Gemm", {"r", "fc2.w", "fc2.b"}, {"logits"}, {{"transB", int64_t{1}}}}};
  return {m, kTrained, cpu(), {.epochs = 2, .batch = 4, .schedule = {.lr = 0.01}}};
}

TensorDataset rows() {
  return TensorDataset({random_tensor({DType::kF32, {12, 4}}, 1, "rows")},
                       {0, 1, 2, 2, 1, 0, 0, 1, 2, 0, 2, 1});
}

TEST(Checkpoint1, GoesOnAsIfTheFormatHadNotChanged) {
  const Checkpoint old = load_checkpoint(real_fs(), kOld).or_throw();
  EXPECT_TRUE(old.in_buckets);
  TensorDataset data = rows();
  EpochResult r;
  Trainer whole = begun(), resumed = begun();
  resumed.restore(old);
  const Checkpoint now = resumed.checkpoint();
  EXPECT_FALSE(now.in_buckets);
  EXPECT_EQ(now.optimizer_steps, 5);
  EXPECT_EQ(now.optimizer.size(), 8U);
  // Each begins at a multiple of 16, in the order asked for.
  const std::pair<const char*, size_t> places[] = {
      {"fc2.w", 0}, {"fc1.w", 16}, {"fc2.b", 48}, {"fc1.b", 64}};
  for (const auto& [name, begin] : places) {
    EXPECT_TRUE(now.parameters.at(name).same_bytes(old.parameters.at(name))) << name;
    for (const std::string moment : {".m", ".v"}) {
      const Tensor& t = now.optimizer.at(name + moment);
      EXPECT_EQ(t.shape(), old.parameters.at(name).shape());
      const auto bucket = old.optimizer.at("bucket0" + moment).as<float>();
      EXPECT_NE(t.as<float>()[0], 0) << name << moment;
      for (size_t i = 0; i < t.as<float>().size(); ++i) {
        EXPECT_EQ(t.as<float>()[i], bucket[begin + i]) << name << moment << " " << i;
      }
    }
  }
  for (int epoch = 0; epoch < 2; ++epoch) ASSERT_TRUE(whole.train_epoch(data, r));
  ASSERT_TRUE(resumed.train_epoch(data, r));
  for (const auto& [name, t] : whole.checkpoint().parameters) {
    EXPECT_LE(testing::largest_difference({t.to_doubles()},
                                          {resumed.checkpoint().parameters.at(name).to_doubles()}),
              1e-5)  // another processor wrote it
        << name;
  }
}

TEST(Checkpoint1, ParametersFillBucketsInTheirOrder) {
  constexpr int64_t kBucket = (int64_t{25} << 20) / 4;
  const std::vector<std::pair<std::string, Shape>> parameters = {
      {"a", {3, 5}}, {"large", {kBucket + 1}}, {"b", {7}}, {"c", {kBucket - 64}}, {"d", {65}}};
  const int64_t sizes[] = {16, kBucket + 16, kBucket - 48, 80};
  std::map<std::string, Tensor> buckets;
  for (size_t i = 0; i < 4; ++i) {
    Tensor t({DType::kF32, {sizes[i]}});
    auto values = t.mutable_as<float>();
    for (size_t k = 0; k < values.size(); ++k) {
      values[k] = static_cast<float>(i + 1) + static_cast<float>(k % 1000) / 1000;
    }
    buckets.emplace("bucket" + std::to_string(i) + ".m", std::move(t));
  }
  const auto moments = moments_by_parameter(buckets, parameters);
  ASSERT_EQ(moments.size(), 5U) << "SGD has no second moment";
  const std::tuple<const char*, size_t, size_t> places[] = {
      {"a", 0, 0}, {"large", 1, 0}, {"b", 2, 0}, {"c", 2, 16}, {"d", 3, 0}};
  for (const auto& [name, bucket, begin] : places) {
    const Tensor& t = moments.at(std::string(name) + ".m");
    const Tensor& from = buckets.at("bucket" + std::to_string(bucket) + ".m");
    EXPECT_EQ(std::memcmp(t.data(), from.as<float>().data() + begin, t.bytes()), 0) << name;
  }
  EXPECT_EQ(moments.at("a.m").shape(), (Shape{3, 5}));
  const std::span<const std::pair<std::string, Shape>> all = parameters;
  EXPECT_THAT(error_of([&] { (void)moments_by_parameter(buckets, all.first(4)); }),
              ::testing::Eq("no error"))
      << "the last bucket is not asked for";
  EXPECT_THAT(error_of([&] { (void)moments_by_parameter(buckets, all.subspan(1)); }),
              HasSubstr("'bucket0.m'"));
}

}  // namespace
}  // namespace ndtrain
