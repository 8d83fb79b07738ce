// What a plan makes one kernel of on the device, and what it leaves apart.
#include <gmock/gmock.h>

#include "framework/runtime/executor.h"
#include "tests/cuda/emulated.h"
#include "tests/graph/model_builder.h"
#include "tests/graph/random_graph.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using testing::cpu;
using testing::random_tensor;

class CudaFused : public testing::OnFakes {
 protected:
  static ValueId param(Graph& g, const char* name, const TensorType& type) {
    return g.add_param(name, random_tensor(type, 1, name));
  }

  // Rows of 24 numbers to rows of 40: a product, its bias, and what `end` adds.
  static Graph layer(int64_t photos, DType t, const char* activation, const Attrs& attrs = {}) {
    Graph g;
    const ValueId x = g.add_input("x", {t, {photos, 3, 24}});
    const ValueId y = g.add1("MatMul", {x, param(g, "w", {t, {24, 40}})});
    const ValueId z = g.add1("Add", {y, param(g, "b", {t, {40}})});
    g.mark_output(g.add1(activation, {z}, attrs));
    return g;
  }

  // On the device; the result is the cpu plugin's but for rounding.
  static size_t kernels(const Graph& g, double tolerance = 1e-5) {
    const Device device(cuda(), {.deterministic = true});
    const Plan plan(g, device);
    const std::vector<Tensor> x = testing::random_inputs(g, 3);
    const std::vector<double> got = Executor(plan).run(x)[0].to_doubles(),
                              want = Executor(Plan(g, cpu())).run(x)[0].to_doubles();
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
    return plan.kernel_count();
  }
};

TEST_F(CudaFused, AProductItsBiasAndItsReluAreOneKernel) {
  EXPECT_EQ(kernels(layer(2, DType::kF32, "Relu")), 1U);
  EXPECT_EQ(kernels(layer(2, DType::kF16, "Relu"), 0.02), 1U);
  EXPECT_EQ(kernels(layer(2, DType::kBF16, "Relu"), 0.1), 1U);
}

TEST_F(CudaFused, OnlyTheApproximateGeluInSixteenBitsIsPartOfAProduct) {
  const Attrs tanh{{"approximate", "tanh"}};
  EXPECT_EQ(kernels(layer(2, DType::kF16, "Gelu", tanh), 0.02), 1U);
  EXPECT_EQ(kernels(layer(2, DType::kF16, "Gelu"), 0.02), 2U);
  EXPECT_EQ(kernels(layer(2, DType::kF32, "Gelu", tanh)), 2U);
  EXPECT_EQ(kernels(layer(2, DType::kF32, "Gelu")), 2U);
}

TEST_F(CudaFused, WithoutAnAlgorithmForTheActivationItIsAKernelOfItsOwn) {
  fake::fail("cublasLtMatmulAlgoGetHeuristic", 1, cudaErrorNotSupported);
  EXPECT_EQ(kernels(layer(2, DType::kF32, "Relu")), 2U);
}

TEST_F(CudaFused, APhotoHasTheSameBitsInAnyBatch) {
  const Device device(cuda(), {.deterministic = true});
  const auto rows = [&](int64_t photos) {
    const Graph g = layer(photos, DType::kF32, "Relu");
    Tensor x({DType::kF32, {photos, 3, 24}});
    const Tensor first = random_tensor({DType::kF32, {1, 3, 24}}, 5, "photo");
    std::memcpy(x.mutable_data(), first.data(), first.bytes());
    std::vector<double> y = Executor(Plan(g, device)).run({&x, 1})[0].to_doubles();
    y.resize(3 * 40);
    return y;
  };
  EXPECT_EQ(rows(1), rows(2));
  EXPECT_EQ(rows(1), rows(30));
}

// x sigmoid(x) of a scaled and shifted image; `apart`: everything in between is an output, too.
Graph scaled_silu(DType t, bool apart) {
  Graph g;
  const ValueId x = g.add_input("x", {t, {2, 6, 5, 7}});
  const ValueId scale = g.add_param("scale", random_tensor({t, {6, 1, 1}}, 1, "scale"));
  const ValueId scaled = g.add1("Mul", {x, scale});
  const ValueId shifted =
      g.add1("Add", {scaled, g.add_constant("", Tensor::from_doubles({t, {}}, std::vector{0.5}))});
  const ValueId gate = g.add1("Sigmoid", {shifted});
  g.mark_output(g.add1("Mul", {shifted, gate}));
  if (!apart) return g;
  for (const ValueId v : {scaled, shifted, gate}) g.mark_output(v);
  return g;
}

TEST_F(CudaFused, ElementwiseOpsInARowAreOneKernel) {
  EXPECT_EQ(kernels(scaled_silu(DType::kF32, false)), 1U);
  EXPECT_EQ(kernels(scaled_silu(DType::kF16, false), 0.01), 1U);
  EXPECT_EQ(kernels(scaled_silu(DType::kBF16, false), 0.05), 1U);
}

TEST_F(CudaFused, InF32TheyHaveTheBitsThatTheyHaveApart) {
  const Device device(cuda(), {.deterministic = true});
  const Graph together = scaled_silu(DType::kF32, false), apart = scaled_silu(DType::kF32, true);
  const Plan one(together, device), four(apart, device);
  EXPECT_EQ(four.kernel_count(), 4U);
  const std::vector<Tensor> x = testing::random_inputs(together, 3);
  EXPECT_TRUE(Executor(one).run(x)[0].same_bytes(Executor(four).run(x)[0]));
}

TEST_F(CudaFused, WhatNeedsMoreResultsAtOnceThanOneKernelHoldsIsTwo) {
  const auto waves = [](int results) {
    Graph g;
    const ValueId x = g.add_input("x", {DType::kF32, {3, 50}});
    std::vector<ValueId> all;
    for (int i = 0; i < results; ++i) all.push_back(g.add1(i % 2 ? "Tanh" : "Neg", {x}));
    ValueId sum = all[0];
    for (size_t i = 1; i < all.size(); ++i) sum = g.add1("Add", {sum, all[i]});
    g.mark_output(sum);
    return g;
  };
  EXPECT_EQ(kernels(waves(4)), 1U);
  EXPECT_EQ(kernels(waves(5)), 2U);
}

TEST_F(CudaFused, StepsThatNeedMoreResultsAtOnceThanItHoldsAreRefused) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {7}});
  g.mark_output(g.add1("FusedElementwise", {x},
                       {{"steps",
                         "Neg x0; Exp x0; Abs x0; Tanh x0; Relu x0; Add y0 y1; Add y5 y2; "
                         "Add y6 y3; Add y7 y4"}}));
  const Device device(cuda(), {.deterministic = true});
  EXPECT_THAT(testing::error_of([&] { Plan(g, device); }),
              ::testing::HasSubstr("more than 4 results at a time"));
}

}  // namespace
}  // namespace ndtrain
