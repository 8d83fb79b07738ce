// What a plan makes one kernel of on the device, and what it leaves apart.
#include <gmock/gmock.h>

#include "framework/runtime/executor.h"
#include "tests/cuda/emulated.h"
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

}  // namespace
}  // namespace ndtrain
