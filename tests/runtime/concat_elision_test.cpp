#include "framework/runtime/concat_elision.h"

#include <gtest/gtest.h>

#include "framework/runtime/executor.h"
#include "framework/runtime/layout.h"
#include "framework/runtime/plan.h"
#include "tests/graph/random_graph.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using testing::cpu;
using testing::random_inputs;
using testing::random_tensor;

ValueId conv(Graph& g, ValueId x, int64_t channels, int64_t kernel, int64_t group = 1) {
  const Shape w = {channels, g.shape(x)[1] / group, kernel, kernel};
  const ValueId weight = g.add_param("w" + std::to_string(g.value_count()),
                                     random_tensor({DType::kF32, w}, g.value_count(), "w"));
  const int64_t pad = kernel / 2;
  return g.add1("Conv", {x, weight}, {{"pads", Ints{pad, pad, pad, pad}}, {"group", group}});
}

ValueId concat(Graph& g, std::vector<ValueId> parts, int64_t axis = 1) {
  return g.add1("Concat", std::move(parts), {{"axis", axis}});
}

// Runs `g` with and without shared memory, which must agree, and returns how many nodes were
// spared.
size_t spared(Graph g, std::vector<ValueId> outputs) {
  g.set_outputs(std::move(outputs));
  const Plan joined(g, cpu()), apart(g, cpu(), {.reuse_memory = false});
  const std::vector<Tensor> inputs = random_inputs(g, 7);
  const auto got = Executor(joined).run(inputs), want = Executor(apart).run(inputs);
  for (size_t k = 0; k < want.size(); ++k) EXPECT_TRUE(got[k].same_bytes(want[k])) << k;
  return apart.kernel_count() - joined.kernel_count();
}

struct Parts {
  explicit Parts(int64_t batch = 3) {
    x = g.add_input("x", {DType::kF32, {batch, 16, 9, 7}});
    pointwise = conv(g, x, 8, 1);
    wide = conv(g, x, 24, 3);
    depthwise = conv(g, x, 16, 5, 16);
  }
  Graph g;
  ValueId x, pointwise, wide, depthwise;
};

TEST(Join, ConvolutionsWriteIntoTheirConcat) {
  Parts p;
  const ValueId y = concat(p.g, {p.pointwise, p.wide, p.depthwise});
  EXPECT_EQ(spared(p.g, {p.g.add1("Relu", {y})}), 1u);
}

TEST(Join, TheConcatMayBeAnOutputOrSeenThroughAView) {
  Parts p;
  const ValueId y = concat(p.g, {p.wide, p.pointwise}, -3);
  EXPECT_EQ(spared(p.g, {y, p.depthwise}), 1u);
  EXPECT_EQ(spared(p.g, {p.depthwise, p.g.add1("Flatten", {y})}), 1u);
}

TEST(Join, APartThatIsReadElsewhereIsCopied) {
  for (const bool output : {false, true}) {
    Parts p;
    const ValueId y = concat(p.g, {p.pointwise, p.wide});
    const ValueId other = output ? p.wide : p.g.add1("Relu", {p.wide});
    EXPECT_EQ(spared(p.g, {y, other, p.depthwise}), 0u);
  }
}

TEST(Join, TheSameValueTwiceAnInputOrAnotherAxisIsCopied) {
  Parts p;
  const ValueId twice = concat(p.g, {p.pointwise, p.pointwise});
  const ValueId input = concat(p.g, {p.x, p.wide});
  const ValueId rows = concat(p.g, {p.depthwise, conv(p.g, p.x, 16, 1)}, 2);
  EXPECT_EQ(spared(p.g, {twice, input, rows}), 0u);
}

TEST(Join, AKernelThatLeavesNoGapsIsAskedAgainForThePlainLayout) {
  Parts p;
  const ValueId y = concat(p.g, {p.pointwise, p.g.add1("Relu", {p.wide}), p.depthwise});
  EXPECT_EQ(spared(p.g, {y}), 0u);
}

TEST(Join, OneImageHasNoGapsSoAnyKernelWillDo) {
  Parts p(1);
  const ValueId y = concat(p.g, {p.pointwise, p.g.add1("Relu", {p.wide}), p.depthwise});
  EXPECT_EQ(spared(p.g, {y}), 1u);
}

TEST(Join, PartsBeginWhereTheOnesBeforeThemEnd) {
  Parts p;
  concat(p.g, {p.pointwise, p.wide, p.depthwise});
  const Node& n = p.g.nodes().back();
  const std::vector<ndt_tensor_type> types = row_major_types(p.g);
  EXPECT_EQ(part_offset(types, n, 0), 0u);
  EXPECT_EQ(part_offset(types, n, 2), (8u + 24u) * 9 * 7 * sizeof(float));
}

}  // namespace
}  // namespace ndtrain
