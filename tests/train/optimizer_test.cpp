#include "framework/train/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

struct Golden {
  const char* name;
  std::vector<double> values;
};

const std::vector<Golden>& golden() {
  static const std::vector<Golden> all = {
#include "tests/train/golden_optimizers.inc"
  };
  return all;
}

using Kind = OptimizerConfig::Kind;
struct Case {
  double lr;
  OptimizerConfig config;
};

// In the order of tools/golden/optimizers.py.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {0.1, {.kind = Kind::kSgd, .momentum = 0}},
      {0.05, {.kind = Kind::kSgd}},
      {0.05, {.kind = Kind::kSgd, .weight_decay = 0.01}},
      {0.05, {.kind = Kind::kSgd, .nesterov = true, .weight_decay = 0.01}},
      {0.01, {.kind = Kind::kAdam}},
      {0.01,
       {.kind = Kind::kAdam, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1}},
      {0.01, {.kind = Kind::kAdamW, .weight_decay = 0.1}}};
  return all;
}

constexpr size_t kValues = 5;
const std::vector<float> kStart = {0.5F, -1.25F, 2.0F, 0.0F, -0.03125F};

Parameters one_parameter() {
  Graph g;
  const ValueId w = g.add_param("w", Tensor::of(DType::kF32, {5}, kStart));
  return Parameters(g, std::vector{w}, testing::cpu());
}

void set_gradient(Parameters& p, int64_t step) {
  float* g = p.gradient("w");
  for (size_t i = 0; i < kValues; ++i) {
    g[i] = static_cast<float>((3 * static_cast<int64_t>(i) + 7 * step) % 11 - 5) / 4;
  }
}

TEST(Optimizer, TakesPyTorchsSteps) {
  ASSERT_EQ(golden().size(), cases().size());
  for (size_t c = 0; c < cases().size(); ++c) {
    Parameters p = one_parameter();
    Optimizer optimizer(cases()[c].config, p, testing::cpu());
    for (int64_t step = 0; step < 5; ++step) {
      set_gradient(p, step);
      optimizer.step(cases()[c].lr);
    }
    for (size_t i = 0; i < kValues; ++i) {
      EXPECT_NEAR(p.value("w")[i], golden()[c].values[i], 2e-6) << golden()[c].name << " " << i;
    }
  }
}

TEST(Optimizer, ARestoredOneGoesOnWithTheSameBits) {
  for (const Case& c : cases()) {
    Parameters p = one_parameter(), q = one_parameter();
    Optimizer whole(c.config, p, testing::cpu());
    std::map<std::string, Tensor> state;
    Tensor value;
    for (int64_t step = 0; step < 5; ++step) {
      if (step == 3) {
        state = whole.state();
        value = p.copy("w");
      }
      set_gradient(p, step);
      whole.step(c.lr);
    }
    Optimizer resumed(c.config, q, testing::cpu());
    q.set("w", value);
    resumed.restore(state, 3);
    for (int64_t step = 3; step < 5; ++step) {
      set_gradient(q, step);
      resumed.step(c.lr);
    }
    EXPECT_TRUE(p.copy("w").same_bytes(q.copy("w")));
  }
}

TEST(Optimizer, StateOfAnotherOptimizerIsRefused) {
  Parameters p = one_parameter();
  const Optimizer sgd({.kind = Kind::kSgd}, p, testing::cpu());
  Optimizer adam({.kind = Kind::kAdam}, p, testing::cpu());
  EXPECT_THAT(error_of([&] { adam.restore(sgd.state(), 1); }), HasSubstr("bucket0.v"));
}

TEST(Optimizer, NamesAreKnown) {
  EXPECT_EQ(optimizer_named("adamw"), Kind::kAdamW);
  EXPECT_THAT(error_of([] { optimizer_named("adma"); }), HasSubstr("'adma'"));
}

TEST(Parameters, FillBucketsInOrder) {
  Graph g;
  std::vector<ValueId> params;
  const int64_t n = Parameters::kBucketElements;
  const std::pair<const char*, Shape> shapes[] = {
      {"a", {3, 5}}, {"large", {n + 1}}, {"b", {7}}, {"c", {n - 64}}, {"d", {65}}};
  for (const auto& [name, shape] : shapes) {
    params.push_back(g.add_param(name, Tensor({DType::kF32, shape})));
  }
  Tensor a({DType::kF32, {3, 5}});
  for (size_t i = 0; i < 15; ++i) a.mutable_as<float>()[i] = static_cast<float>(i);
  g.set_data(params[0], a);
  Parameters p(g, params, testing::cpu());
  EXPECT_EQ(p.names(), (std::vector<std::string>{"a", "large", "b", "c", "d"}));
  EXPECT_EQ(p.count(), 15 + n + 1 + 7 + n - 64 + 65);
  EXPECT_TRUE(p.copy("a").same_bytes(a));
  ASSERT_EQ(p.buckets().size(), 4U);  // a | large | b c | d
  EXPECT_EQ(p.buckets()[2].slots.size(), 2U);
  for (const ParameterBucket& b : p.buckets()) {
    int64_t end = 0;
    for (const ParameterSlot& s : b.slots) {
      EXPECT_EQ(s.offset % 16, 0) << s.name;
      EXPECT_GE(s.offset, end) << s.name;
      end = s.offset + s.shape.count();
    }
    EXPECT_LE(end, b.values.type().shape.count());
    EXPECT_EQ(b.values.type(), b.gradients.type());
  }
}

TEST(Parameters, AreReadAndSetByName) {
  Parameters p = one_parameter();
  p.set("w", Tensor::of<float>(DType::kF32, {5}, {1, 2, 3, 4, 5}));
  EXPECT_EQ(p.value("w")[4], 5);
  EXPECT_THAT(error_of([&] { p.value("v"); }), HasSubstr("'v'"));
  EXPECT_THAT(error_of([&] { p.set("w", Tensor({DType::kF32, {6}})); }), HasSubstr("f32[6]"));
}

TEST(Parameters, OnlyF32WithAValueCanBeTrained) {
  Graph g;
  const ValueId half = g.add_param("half", Tensor({DType::kF16, {2}}));
  const ValueId empty = g.add_param("empty", {DType::kF32, {2}});
  EXPECT_THAT(error_of([&] { Parameters(g, std::vector{half}, testing::cpu()); }),
              HasSubstr("'half'"));
  EXPECT_THAT(error_of([&] { Parameters(g, std::vector{empty}, testing::cpu()); }),
              HasSubstr("without a value"));
  const ValueId fine = g.add_param("fine", Tensor({DType::kF32, {2}}));
  EXPECT_THAT(error_of([&] {
                Parameters(g, std::vector{fine, fine}, testing::cpu());
              }),
              HasSubstr("twice"));
}

}  // namespace
}  // namespace ndtrain
