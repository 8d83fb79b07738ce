#include "framework/runtime/batch_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "framework/passes/inference.h"
#include "framework/passes/passes.h"
#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using testing::cpu;
using testing::error_of;
using ::testing::HasSubstr;
using testing::random_network;
using testing::random_tensor;

// Rows [begin, begin + n) of each tensor.
std::vector<Tensor> rows_of(const std::vector<Tensor>& all, int64_t begin, int64_t n) {
  std::vector<Tensor> part;
  for (const Tensor& t : all) {
    Tensor rows({t.type().dtype, t.shape().with(0, n)});
    const size_t row = t.bytes() / static_cast<size_t>(t.shape()[0]);
    std::memcpy(rows.mutable_data(),
                static_cast<const char*>(t.data()) + row * static_cast<size_t>(begin),
                rows.bytes());
    part.push_back(rows);
  }
  return part;
}

void expect_rows(const std::vector<Tensor>& got, const std::vector<Tensor>& all, int64_t begin,
                 const std::string& what) {
  const auto want = rows_of(all, begin, got.at(0).shape()[0]);
  for (size_t k = 0; k < got.size(); ++k) {
    EXPECT_TRUE(got[k].same_bytes(want[k])) << what << ", output " << k;
  }
}

TEST(BatchPlans, BucketsArePowersOfTwoUpToTheMaximum) {
  const BatchPlans plans([](int64_t b) { return random_network(1, 8, b); }, cpu(), 12);
  const int64_t want[] = {1, 2, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12};
  for (int64_t n = 1; n <= 12; ++n) EXPECT_EQ(plans.bucket(n), want[n - 1]) << n;
  EXPECT_EQ(plans.bucket(100), 12);
  EXPECT_THAT(error_of([] { BatchPlans(nullptr, cpu(), 0); }), HasSubstr("not 0"));
}

TEST(BatchPlans, PlansAreMadeWhenFirstNeeded) {
  std::vector<int64_t> made;
  BatchPlans plans(
      [&](int64_t b) {
        made.push_back(b);
        return random_network(1, 8, b);
      },
      cpu(), 8);
  EXPECT_TRUE(made.empty());
  const std::vector<Tensor> all = testing::random_inputs(random_network(1, 8, 11), 1);
  plans.run(rows_of(all, 0, 3));
  plans.run(rows_of(all, 0, 4));
  EXPECT_EQ(made, (std::vector<int64_t>{4}));
  plans.run(all);  // 8 and 3
  EXPECT_EQ(made, (std::vector<int64_t>{4, 8}));
}

// The rule that features live by: a row's bits do not depend on what it sits beside.
TEST(BatchPlans, ARowAloneEqualsTheRowInAnyBatch) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto make = [&](int64_t b) {
      return optimize_for_inference(random_network(seed, 14, b));
    };
    constexpr int64_t kRows = 11;
    const std::vector<Tensor> inputs = testing::random_inputs(make(kRows), seed);
    for (const Device* device : testing::host_devices()) {
      BatchPlans plans(make, *device, 8);
      const auto together = plans.run(inputs);
      ASSERT_EQ(together[0].shape()[0], kRows);
      for (int64_t begin = 0; begin < kRows; ++begin) {
        for (int64_t n : {1, 2, 3, 7}) {
          if (begin + n > kRows) continue;
          expect_rows(plans.run(rows_of(inputs, begin, n)), together, begin,
                      device->backend().name() + ", seed " + std::to_string(seed) + ", " +
                          std::to_string(n) + " rows from " + std::to_string(begin));
        }
      }
    }
  }
}

// Convolution, batch normalisation, Relu and Gemm of the sizes that networks have.
Graph wide_network(int64_t batch) {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 16, 14, 14}}};
  m.outputs = {"logits"};
  testing::add_weight(m, "w0", {64, 16, 3, 3});
  testing::add_weight(m, "w1", {64, 1, 3, 3});
  testing::add_weight(m, "w2", {96, 64, 1, 1});
  testing::add_weight(m, "fc", {96, 100});
  testing::add_weight(m, "bias", {64});
  testing::add_weight(m, "scale", {64});
  m.initialisers["var"] = Tensor::of(DType::kF32, {64}, std::vector<float>(64, 0.75F));
  const Attrs same{{"pads", Ints{1, 1, 1, 1}}};
  m.nodes = {{"Conv", {"x", "w0"}, {"c0"}, same},
             {"BatchNormalization", {"c0", "scale", "bias", "bias", "var"}, {"n0"}, {}},
             {"Relu", {"n0"}, {"r0"}, {}},
             {"Conv", {"r0", "w1"}, {"c1"}, {{"pads", Ints{1, 1, 1, 1}}, {"group", int64_t{64}}}},
             {"Conv", {"c1", "w2"}, {"c2"}, {{"strides", Ints{2, 2}}}},
             {"GlobalAveragePool", {"c2"}, {"p"}, {}},
             {"Flatten", {"p"}, {"f"}, {}},
             {"Gemm", {"f", "fc"}, {"logits"}, {}}};
  return inference_graph(m, batch);
}

TEST(BatchPlans, RowsOfAWideNetworkAreInvariantToo) {
  constexpr int64_t kRows = 19;
  const std::vector<Tensor> inputs = testing::random_inputs(wide_network(kRows), 1);
  BatchPlans plans(wide_network, cpu(), 16);
  const auto together = plans.run(inputs);
  for (int64_t row = 0; row < kRows; ++row) {
    expect_rows(plans.run(rows_of(inputs, row, 1)), together, row, "row " + std::to_string(row));
  }
  for (int64_t n : {2, 5, 9}) {
    expect_rows(plans.run(rows_of(inputs, 3, n)), together, 3, std::to_string(n) + " rows");
  }
}

TEST(BatchPlans, WhereMemoryIsSharedARunIsDoneWhenItWasStarted) {
  const auto make = [](int64_t b) { return random_network(1, 8, b); };
  BatchPlans plans(make, cpu(), 4);
  const std::vector<Tensor> inputs = testing::random_inputs(make(3), 1);
  BatchPlans::Started started = plans.start(inputs);
  EXPECT_FALSE(started.under_way());
  expect_rows(started.finish(), plans.run(inputs), 0, "started");
  const Plan plan(make(3), cpu());
  Executor executor(plan);
  EXPECT_EQ(executor.reserve(2), 0U);
  EXPECT_THAT(error_of([&] { executor.start(inputs); }), HasSubstr("shares the host's memory"));
  EXPECT_THAT(error_of([&] { executor.run(std::span(inputs).first(1)); }),
              HasSubstr("was given 1"));
}

TEST(BatchPlans, WhatHasNoRowsIsRefused) {
  BatchPlans plans([](int64_t b) { return random_network(1, 8, b); }, cpu(), 4);
  EXPECT_NE(error_of([&] { plans.run({}); }), "no error");
  const std::vector<Tensor> empty = {Tensor({DType::kF32, {0, 3, 5, 5}}),
                                     Tensor({DType::kF32, {0, 4, 5, 5}})};
  EXPECT_THAT(error_of([&] { plans.run(empty); }), HasSubstr("no rows"));
  const std::vector<Tensor> uneven = {Tensor({DType::kF32, {2, 3, 5, 5}}),
                                      Tensor({DType::kF32, {3, 4, 5, 5}})};
  EXPECT_THAT(error_of([&] { plans.run(uneven); }), HasSubstr("2 and 3 rows"));
}

TEST(BatchPlans, AnOutputWithoutRowsIsRefused) {
  const auto make = [](int64_t b) {
    Graph g;
    const ValueId x = g.add_input("x", {DType::kF32, {b, 3}});
    const ValueId turned = g.add1("Transpose", {x}, {{"perm", Ints{1, 0}}});
    g.mark_output(turned);
    return g;
  };
  BatchPlans plans(make, cpu(), 4);
  EXPECT_THAT(error_of([&] {
                plans.run(std::vector{Tensor({DType::kF32, {2, 3}})});
              }),
              HasSubstr("an output is f32[3,2] for 2 rows"));
}

}  // namespace
}  // namespace ndtrain
