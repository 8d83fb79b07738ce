#include "framework/graph/cuts.h"

#include <gtest/gtest.h>

#include "framework/graph/split.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::random_tensor;

// x -> conv -> relu -> (conv, skip) -> add -> pool -> gemm
struct Residual {
  Graph g;
  ValueId stem{}, relu{}, conv{}, sum{}, pooled{}, flat{};
  Residual() {
    const ValueId x = g.add_input("x", {DType::kF32, {2, 3, 6, 6}});
    const auto weight = [&](const std::string& name, Shape s) {
      return g.add_param(name, random_tensor({DType::kF32, std::move(s)}, 1, name));
    };
    stem = g.add1("Conv", {x, weight("w0", {4, 3, 1, 1})});
    relu = g.add1("Relu", {stem});
    conv = g.add1("Conv", {relu, weight("w1", {4, 4, 1, 1})});
    sum = g.add1("Add", {conv, relu});
    pooled = g.add1("GlobalAveragePool", {sum});
    flat = g.add1("Flatten", {pooled});
    g.mark_output(g.add1("Gemm", {flat, weight("w2", {4, 5})}));
  }
};

TEST(Cuts, EveryPlaceThatOneValueCrossesIsListed) {
  const Residual r;
  std::vector<ValueId> features;
  for (const Cut& c : legal_cuts(r.g)) features.push_back(c.feature);
  EXPECT_EQ(features, (std::vector{r.stem, r.relu, r.sum, r.pooled, r.flat}));
}

TEST(Cuts, SizesAreThoseOfTheFeatureAndOfWhatLiesBehind) {
  const Residual r;
  const std::vector<Cut> cuts = legal_cuts(r.g);
  ASSERT_EQ(cuts.size(), 5U);
  EXPECT_EQ(cuts[1].elements, 2 * 4 * 36);
  EXPECT_EQ(cuts[1].nodes_before, 2U);
  EXPECT_EQ(cuts[1].params_behind, 16 + 20);
  EXPECT_EQ(cuts[4].elements, 8);
  EXPECT_EQ(cuts[4].params_behind, 20);
}

TEST(Cuts, CutsOfRandomGraphsSeparate) {
  int met = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Graph g = testing::random_network(seed);
    g.set_outputs({g.outputs()[0]});
    for (const Cut& c : legal_cuts(g)) {
      const Split s = split_after(g, c.nodes_before);
      ASSERT_EQ(s.features, std::vector{g.value(c.feature).name}) << "seed " << seed;
      EXPECT_TRUE(s.trainable.inputs().size() == 1) << "seed " << seed;
      ++met;
    }
  }
  EXPECT_GT(met, 40);
}

TEST(Cuts, AGraphOfOneNodeHasNone) {
  Graph g;
  g.mark_output(g.add1("Relu", {g.add_input("x", {DType::kF32, {2}})}));
  EXPECT_TRUE(legal_cuts(g).empty());
}

}  // namespace
}  // namespace ndtrain
