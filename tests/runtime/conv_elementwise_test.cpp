// A convolution and x * sigmoid(x) of it: one kernel, or two where the convolution is Winograd's.
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/runtime/executor.h"
#include "framework/runtime/interpreter.h"
#include "tests/graph/random_graph.h"
#include "tests/support/winograd.h"

namespace ndtrain {
namespace {

Graph swish(Shape x, int64_t out, int64_t kernel) {
  Graph g;
  const Shape weights{out, x[1], kernel, kernel};
  const ValueId from = g.add_input("x", {DType::kF32, std::move(x)});
  const ValueId w = g.add_param("w", testing::random_tensor({DType::kF32, weights}, 1, "w"));
  const ValueId y = g.add1("Conv", {from, w}, {{"pads", Ints(4, kernel / 2)}});
  g.mark_output(g.add1("Mul", {y, g.add1("Sigmoid", {y})}));
  return g;
}

class ConvElementwise : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<std::string> all = Backend::available();
    if (std::ranges::find(all, "onednn") == all.end()) GTEST_SKIP() << "onednn was not built";
  }
  // Besides those that change the layout of what comes and goes.
  static size_t kernels(const Graph& g) {
    const Device device(Backend::find("onednn"), {.deterministic = true});
    const Plan plan(g, device);
    const std::vector<Tensor> inputs = testing::random_inputs(g, 1);
    const Tensor got = Executor(plan).run(inputs)[0], want = interpret_outputs(g, inputs)[0];
    EXPECT_LE(testing::largest_difference({got.to_doubles()}, {want.to_doubles()}), 1e-4);
    return plan.kernel_count() - 2;
  }
};

TEST_F(ConvElementwise, OfPoints) { EXPECT_EQ(kernels(swish({2, 32, 9, 8}, 48, 1)), 1U); }
TEST_F(ConvElementwise, OfLargeKernels) { EXPECT_EQ(kernels(swish({1, 16, 20, 20}, 16, 5)), 1U); }

TEST_F(ConvElementwise, OfOneForWinogradIsAKernelOfItsOwn) {
  const Device device(Backend::find("onednn"));
  if (!support::has_winograd(device.numerics())) GTEST_SKIP() << "this processor has none";
  EXPECT_EQ(kernels(swish({1, 64, 20, 20}, 64, 3)), 2U);
}

}  // namespace
}  // namespace ndtrain
