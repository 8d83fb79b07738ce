// A convolution and its pool as one kernel give the bits that they give apart.
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/runtime/executor.h"
#include "tests/graph/random_graph.h"
#include "tests/support/winograd.h"

namespace ndtrain {
namespace {

// Convolutions, joined where there are two, and their pool; with `apart` the result in between is
// wanted too, so that nothing can be fused.
Graph pooled(Shape x, std::vector<int64_t> channels, int64_t kernel, bool apart) {
  Graph g;
  const int64_t in = x[1];
  const ValueId from = g.add_input("x", {DType::kF32, std::move(x)});
  std::vector<ValueId> parts;
  for (const int64_t out : channels) {
    const std::string name = "w" + std::to_string(out);
    const ValueId w = g.add_param(
        name, testing::random_tensor({DType::kF32, {out, in, kernel, kernel}}, 1, name));
    const ValueId b =
        g.add_param(name + "b", testing::random_tensor({DType::kF32, {out}}, 1, name));
    parts.push_back(g.add1("FusedConv", {from, w, b}, {{"steps", "Relu x0"}}));
  }
  const ValueId y = parts.size() == 1 ? parts[0] : g.add1("Concat", parts, {{"axis", int64_t{1}}});
  g.mark_output(
      g.add1("MaxPool", {y},
             {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", int64_t{1}}}));
  if (apart) g.mark_output(y);
  return g;
}

class ConvPool : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<std::string> all = Backend::available();
    if (std::ranges::find(all, "onednn") == all.end()) GTEST_SKIP() << "onednn was not built";
  }
  // How many kernels fewer there are: one for what is wanted in between, one for each fused pool.
  static int64_t saved(const Shape& x, const std::vector<int64_t>& channels, int64_t kernel) {
    const Device device(Backend::find("onednn"), {.deterministic = true});
    const Graph fused = pooled(x, channels, kernel, false),
                apart = pooled(x, channels, kernel, true);
    const Plan one(fused, device), several(apart, device);
    const std::vector<Tensor> inputs = testing::random_inputs(fused, 1);
    EXPECT_TRUE(Executor(one).run(inputs)[0].same_bytes(Executor(several).run(inputs)[0]));
    return static_cast<int64_t>(several.kernel_count()) - static_cast<int64_t>(one.kernel_count());
  }
};

TEST_F(ConvPool, OfAPhoto) { EXPECT_EQ(saved({2, 3, 120, 118}, {64}, 7), 2); }
TEST_F(ConvPool, OfFewChannels) { EXPECT_EQ(saved({1, 16, 30, 31}, {24}, 5), 2); }
TEST_F(ConvPool, OfTwoThatAreJoined) { EXPECT_EQ(saved({5, 16, 21, 20}, {64, 32}, 1), 2); }
TEST_F(ConvPool, OfOneForWinogradStaysApart) {
  const Device device(Backend::find("onednn"));
  EXPECT_EQ(saved({1, 64, 20, 20}, {64}, 3), support::has_winograd(device.numerics()) ? 1 : 2);
}

}  // namespace
}  // namespace ndtrain
