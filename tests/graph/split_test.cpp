#include "framework/graph/split.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "framework/core/rng.h"
#include "framework/graph/differentiate.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::interpret_named;
using testing::named_inputs;
using testing::NamedValues;
using testing::random_network;
using testing::random_tensor;

// The trainable half's outputs, fed with what the extractor hands over.
std::vector<std::vector<double>> run_halves(const Split& s, NamedValues given) {
  const auto features = interpret_named(s.extractor, given);
  for (size_t i = 0; i < s.features.size(); ++i) given[s.features[i]] = features.at(i);
  return interpret_named(s.trainable, given);
}

std::vector<ValueId> params_from(const Graph& g, size_t first) {
  return {g.params().begin() + static_cast<std::ptrdiff_t>(first), g.params().end()};
}

std::vector<std::string> names(const Graph& g, std::span<const ValueId> values) {
  std::vector<std::string> result;
  for (ValueId v : values) result.push_back(g.value(v).name);
  return result;
}

// x -> [w0] -> relu -> [w1] -> + skip -> [w2]; the skip crosses the boundary as well.
class SmallSplit : public ::testing::Test {
 protected:
  void SetUp() override {
    const ValueId x = g.add_input("x", {DType::kF32, {4, 5}});
    for (int i = 0; i < 3; ++i) {
      const std::string name = "w" + std::to_string(i);
      w.push_back(g.add_param(name, random_tensor({DType::kF32, {5, 5}}, 1, name)));
    }
    h = g.add1("Relu", {g.add1("MatMul", {x, w[0]})});
    r = g.add1("Add", {g.add1("MatMul", {h, w[1]}), h});
    g.mark_output(g.add1("MatMul", {r, w[2]}));
  }
  Graph g;
  std::vector<ValueId> w;
  ValueId h{}, r{};
};

TEST_F(SmallSplit, HalvesInSequenceEqualTheWhole) {
  for (size_t first : {1U, 2U}) {
    const Split s = split(g, params_from(g, first));
    EXPECT_EQ(s.features.size(), 1U);
    const NamedValues given = named_inputs(g, 3);
    EXPECT_EQ(run_halves(s, given), interpret_named(g, given)) << "first trainable w" << first;
  }
}

TEST_F(SmallSplit, TrainableHalfHoldsNoFrozenParameter) {
  const Split s = split(g, std::vector{w[2]});
  ASSERT_EQ(s.trainable.params().size(), 1U);
  EXPECT_EQ(s.trainable.value(s.trainable.params()[0]).name, "w2");
  EXPECT_EQ(s.extractor.params().size(), 2U);
}

TEST_F(SmallSplit, NothingTrainableIsRefused) { EXPECT_THROW(split(g, {}), Error); }

TEST_F(SmallSplit, AnEarlierCutIsLegalAndALaterOneIsRefused) {
  const Split s = split_at(g, std::vector{h}, std::vector{w[2]});
  EXPECT_EQ(s.features, names(g, std::vector{h}));
  EXPECT_EQ(s.trainable.params().size(), 2U);  // w1 lies between and stays frozen
  const NamedValues given = named_inputs(g, 5);
  EXPECT_EQ(run_halves(s, given), interpret_named(g, given));
  try {
    split_at(g, std::vector{r}, std::vector{w[1]});
    FAIL() << "a cut behind w1 was accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(g.value(r).name), std::string::npos) << e.what();
  }
}

TEST_F(SmallSplit, SeveralTensorsCross) {
  const Split s = split(g, std::vector{w[1], w[2]});
  EXPECT_EQ(s.features.size(), 1U);  // h feeds both branches but crosses once
  const Split branches = split_after(g, 3);
  EXPECT_EQ(branches.features.size(), 2U);
  const NamedValues given = named_inputs(g, 6);
  EXPECT_EQ(run_halves(branches, given), interpret_named(g, given));
}

TEST(Split, FrozenOutputsCrossAsFeatures) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {2, 3}});
  const ValueId w = g.add_param("w", random_tensor({DType::kF32, {3, 3}}, 1, "w"));
  const ValueId frozen = g.add1("Relu", {x});
  g.mark_output(g.add1("MatMul", {x, w}));
  g.mark_output(frozen);
  const Split s = split(g, std::vector{w});
  EXPECT_EQ(s.features, names(g, std::vector{frozen}));
  const NamedValues given = named_inputs(g, 1);
  EXPECT_EQ(run_halves(s, given), interpret_named(g, given));
}

TEST(Split, WhatDependsOnNoInputIsComputedWhereItIsNeeded) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {2, 3}});
  const ValueId table = g.add_param("table", random_tensor({DType::kF32, {4, 3}}, 1, "table"));
  const ValueId w = g.add_param("w", random_tensor({DType::kF32, {4, 4}}, 1, "w"));
  const ValueId turned = g.add1("Transpose", {table}, {{"perm", Ints{1, 0}}});
  const ValueId feature = g.add1("Relu", {g.add1("MatMul", {x, turned})});
  const ValueId tuned = g.add1("MatMul", {feature, w});
  g.mark_output(g.add1("MatMul", {tuned, g.add1("Neg", {g.add1("Transpose", {turned})})}));
  const Split s = split(g, std::vector{w});
  EXPECT_EQ(s.features, names(g, std::vector{feature}));
  const NamedValues given = named_inputs(g, 2);
  EXPECT_EQ(run_halves(s, given), interpret_named(g, given));
}

TEST(Split, NodesWithSeveralOutputsStayWhole) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {2, 6}});
  const auto parts = g.add("Split", {x}, {{"axis", int64_t{1}}}, 2);
  const ValueId w = g.add_param("w", random_tensor({DType::kF32, {3, 3}}, 1, "w"));
  g.mark_output(g.add1("Add", {g.add1("MatMul", {parts[1], w}), parts[0]}));
  const Split s = split(g, std::vector{w});
  EXPECT_EQ(s.features, names(g, std::vector{parts[1], parts[0]}));
  const NamedValues given = named_inputs(g, 2);
  EXPECT_EQ(run_halves(s, given), interpret_named(g, given));
}

TEST(Split, HalvesOfRandomGraphsEqualTheWhole) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Graph g = random_network(seed);
    Rng rng(seed, "trainable");
    std::vector<ValueId> trainable = {g.params().back()};
    for (ValueId v : g.params()) {
      if (rng.next_below(4) == 0) trainable.push_back(v);
    }
    const NamedValues given = named_inputs(g, seed);
    const Split s = split(g, trainable);
    EXPECT_EQ(run_halves(s, given), interpret_named(g, given)) << "seed " << seed;
    for (ValueId v : trainable) {
      EXPECT_EQ(s.extractor.find(g.value(v).name), kNone) << "seed " << seed;
    }
    const Split after = split_after(g, rng.next_below(g.nodes().size() + 1));
    EXPECT_EQ(run_halves(after, given), interpret_named(g, given)) << "seed " << seed;
  }
}

TEST(Split, ForwardAndBackwardEqualTheJointGraph) {
  int with_gradients = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Graph g = random_network(seed);
    const ValueId logits = g.outputs()[0];
    const size_t forward = g.nodes().size();
    const ValueId seed_value =
        g.add_constant("dlogits", random_tensor(g.type(logits), seed, "dlogits"));
    const std::vector<bool> reaches = depends_on(g, g.params());
    std::vector<ValueId> wrt = {g.params().back()}, outputs = {logits};
    ASSERT_TRUE(reaches[index(logits)]);
    for (ValueId dv : differentiate(g, outputs, std::vector{seed_value}, wrt)) {
      outputs.push_back(dv);
    }
    g.set_outputs(outputs);
    with_gradients += g.nodes().size() > forward;
    const Split s = split_after(g, forward);
    const NamedValues given = named_inputs(g, seed);
    EXPECT_EQ(run_halves(s, given), interpret_named(g, given)) << "seed " << seed;
  }
  EXPECT_GT(with_gradients, 30);
}

}  // namespace
}  // namespace ndtrain
