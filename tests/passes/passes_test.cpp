#include "framework/passes/passes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "framework/passes/rewrites.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::count_nodes;
using testing::interpret_named;
using testing::largest_difference;
using testing::named_inputs;
using testing::random_network;
using testing::random_tensor;

std::vector<std::string> input_names(const Graph& g) {
  std::vector<std::string> names;
  for (ValueId v : g.inputs()) names.push_back(g.value(v).name);
  return names;
}

// A pass keeps inputs, their order, the number of outputs, and what is computed.
void expect_same(const Graph& changed, const Graph& g, uint64_t seed, double tolerance) {
  EXPECT_EQ(input_names(changed), input_names(g)) << "seed " << seed;
  const auto given = named_inputs(g, seed);
  EXPECT_LE(largest_difference(interpret_named(changed, given), interpret_named(g, given)),
            tolerance)
      << "seed " << seed;
}

TEST(Passes, RandomNetworksKeepTheirOutputs) {
  for (uint64_t seed = 200; seed < 240; ++seed) {
    const Graph g = random_network(seed, 18);
    expect_same(remove_dead_nodes(g), g, seed, 0);
    expect_same(remove_identities(g), g, seed, 0);
    expect_same(fold_constants(g), g, seed, 0);
    expect_same(rewrite(g, kConvolutions).graph, g, seed, 0);
    expect_same(fuse_for_device(g, {}, {}).graph, g, seed, 1e-6);
    expect_same(fold_batch_norm(g), g, seed, 1e-4);  // folded weights are rounded to f32
    expect_same(optimize_for_inference(g), g, seed, 1e-4);
  }
}

TEST(RemoveDeadNodes, LeavesWhatTheOutputsNeed) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {2, 4}});
  g.add_input("unused", {DType::kF32, {1}});
  const auto parts = g.add("Split", {x}, {{"axis", int64_t{1}}}, 2);
  g.add1("Relu", {g.add1("Neg", {parts[0]})});
  g.mark_output(g.add1("Sigmoid", {parts[1]}));
  const Graph r = remove_dead_nodes(g);
  EXPECT_EQ(r.nodes().size(), 2U);
  EXPECT_EQ(r.nodes()[0].outputs.size(), 2U);
  EXPECT_EQ(r.inputs().size(), 2U);
  expect_same(r, g, 1, 0);
}

TEST(RemoveIdentities, DropoutIsOneAtInference) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {2, 4}});
  const ValueId ratio = g.add_constant("", Tensor::of<float>(DType::kF32, {}, {0.5F}));
  const ValueId a = g.add1("Identity", {g.add1("Dropout", {x, ratio})});
  const auto with_mask = g.add("Dropout", {g.add1("Relu", {a})}, {}, 2);
  g.mark_output(g.add1("Neg", {with_mask[0]}));
  g.mark_output(with_mask[1]);
  const Graph r = remove_identities(g);
  EXPECT_EQ(count_nodes(r, "Identity"), 0);
  EXPECT_EQ(count_nodes(r, "Dropout"), 1);  // its mask is asked for
  expect_same(r, g, 1, 0);
}

TEST(RemoveIdentities, AnOutputKeepsItsName) {
  Graph g;
  const ValueId y = g.add1("Identity", {g.add_input("x", {DType::kF32, {2}})});
  g.rename(y, "y");
  g.mark_output(y);
  const Graph r = remove_identities(g);
  EXPECT_EQ(r.value(r.outputs()[0]).name, "y");
  expect_same(r, g, 1, 0);
}

struct Foldable {
  Graph g;
  ValueId a{}, b{};
  Foldable() {
    const ValueId x = g.add_input("x", {DType::kF32, {3}});
    a = g.add_param("a", random_tensor({DType::kF32, {3}}, 1, "a"));
    b = g.add_param("b", random_tensor({DType::kF32, {3}}, 1, "b"));
    const ValueId c = g.add_constant("c", random_tensor({DType::kF32, {3}}, 1, "c"));
    const ValueId ac = g.add1("Mul", {a, c}), bc = g.add1("Neg", {g.add1("Mul", {b, c})});
    g.mark_output(g.add1("Add", {g.add1("Add", {x, ac}), bc}));
  }
};

TEST(FoldConstants, RunsWhatDependsOnNoInput) {
  const Foldable f;
  const Graph r = fold_constants(f.g);
  EXPECT_EQ(r.nodes().size(), 2U);
  EXPECT_TRUE(r.params().empty());
  expect_same(r, f.g, 1, 1e-6);
}

TEST(FoldConstants, LeavesWhatTrainingChanges) {
  const Foldable f;
  const Graph r = fold_constants(f.g, std::vector{f.b});
  EXPECT_EQ(r.nodes().size(), 4U);
  ASSERT_EQ(r.params().size(), 1U);
  EXPECT_EQ(r.value(r.params()[0]).name, "b");
  expect_same(r, f.g, 1, 1e-6);
  // The parameter that is left still counts.
  auto given = named_inputs(f.g, 1);
  given["b"] = {10, 20, 30};
  EXPECT_LE(largest_difference(interpret_named(r, given), interpret_named(f.g, given)), 1e-6);
}

TEST(FoldConstants, AParameterWithoutDataStays) {
  Graph g;
  const ValueId w = g.add_param("w", {DType::kF32, {3}});
  g.mark_output(g.add1("Neg", {w}));
  EXPECT_EQ(fold_constants(g).nodes().size(), 1U);
}

TEST(FoldConstants, AnOutputMayBecomeAConstant) {
  Graph g;
  g.mark_output(g.add1("Neg", {g.add_constant("c", Tensor::of<float>(DType::kF32, {2}, {1, 2}))}));
  const Graph r = fold_constants(g);
  EXPECT_TRUE(r.nodes().empty());
  expect_same(r, g, 1, 0);
}

TEST(FoldConstants, ALargeResultOfSmallInputsIsNotKept) {
  const auto nodes_for = [](int64_t n) {
    Graph g;
    const ValueId shape = g.add_constant("", Ints{n});
    const ValueId one = g.add_constant("", Tensor::of<float>(DType::kF32, {1}, {1}));
    g.mark_output(g.add1("Expand", {one, shape}));
    return fold_constants(g).nodes().size();
  };
  EXPECT_EQ(nodes_for(int64_t{1} << 22), 0U);
  EXPECT_EQ(nodes_for((int64_t{1} << 22) + 1), 1U);
}

}  // namespace
}  // namespace ndtrain
