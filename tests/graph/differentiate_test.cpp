#include "framework/graph/differentiate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/graph/op.h"
#include "framework/runtime/interpreter.h"
#include "tests/graph/model_builder.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::random_network;
using testing::random_tensor;

ValueId ones(Graph& g, ValueId like) {
  const std::vector<double> values(static_cast<size_t>(g.shape(like).count()), 1.0);
  return g.add_constant("", Tensor::from_doubles(g.type(like), values));
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Moves all of `wrt` along random directions: the change of <seed, logits> is what the gradients
// say.
TEST(Differentiate, RandomNetworksAgreeWithFiniteDifferences) {
  int compared = 0;
  for (uint64_t seed = 100; seed < 130; ++seed) {
    Graph g = random_network(seed, 10);
    const ValueId logits = g.outputs()[0];
    std::vector<ValueId> wrt;
    for (ValueId v : g.params()) {
      const ValueId root[] = {v};
      if (depends_on(g, root)[index(logits)]) wrt.push_back(v);
    }
    const Tensor dlogits = random_tensor(g.type(logits), seed, "dlogits");
    const ValueId given = g.add_constant("dlogits", dlogits);
    const auto gradients = differentiate(g, std::vector{logits}, std::vector{given}, wrt);

    DoubleValues at, direction;
    for (ValueId v : g.inputs())
      at[v] = random_tensor(g.type(v), seed, g.value(v).name).to_doubles();
    for (ValueId v : wrt) {
      direction[v] = random_tensor(g.type(v), seed, "direction " + g.value(v).name).to_doubles();
      at[v] = g.value(v).data.to_doubles();
    }
    const DoubleValues values = interpret(g, at);
    double slope = 0;
    for (size_t k = 0; k < wrt.size(); ++k)
      slope += dot(values.at(gradients[k]), direction.at(wrt[k]));
    const double h = 1e-6;
    const auto value_at = [&](double t) {
      DoubleValues moved = at;
      for (ValueId v : wrt) {
        for (size_t i = 0; i < moved[v].size(); ++i) moved[v][i] += t * direction.at(v)[i];
      }
      return dot(interpret(g, std::move(moved)).at(logits), dlogits.to_doubles());
    };
    const double there = value_at(h), here = value_at(0), back = value_at(-h);
    // Not where a kink of Relu or MaxPool lies between: there the two one-sided slopes differ.
    if (std::abs((there - here) - (here - back)) / h > 1e-3) continue;
    EXPECT_NEAR(slope, (there - back) / (2 * h), 1e-5 * std::max(1.0, std::abs(slope)))
        << "seed " << seed;
    ++compared;
  }
  EXPECT_GE(compared, 20);
}

TEST(Differentiate, AnUnusedOutputOfANodeCountsAsZero) {
  Graph g;
  const ValueId w = g.add_param("w", random_tensor({DType::kF32, {2, 4}}, 1, "w"));
  const auto parts = g.add("Split", {w}, {{"axis", int64_t{1}}}, 2);
  const auto gradient =
      differentiate(g, std::vector{parts[1]}, std::vector{ones(g, parts[1])}, std::vector{w});
  EXPECT_EQ(interpret(g, {}).at(gradient[0]), (std::vector<double>{0, 0, 1, 1, 0, 0, 1, 1}));
}

TEST(Differentiate, SeveralReadersAddUp) {
  Graph g;
  const ValueId w = g.add_param("w", Tensor::of<float>(DType::kF32, {2}, {3, -1}));
  const ValueId square = g.add1("Mul", {w, w});
  const ValueId y = g.add1("Add", {square, w});
  const auto gradient = differentiate(g, std::vector{y}, std::vector{ones(g, y)}, std::vector{w});
  EXPECT_EQ(interpret(g, {}).at(gradient[0]), (std::vector<double>{7, -1}));
}

TEST(Differentiate, SeveralOutputsAddUp) {
  Graph g;
  const ValueId w = g.add_param("w", Tensor::of<float>(DType::kF32, {2}, {3, -1}));
  const ValueId a = g.add1("Neg", {w}), b = g.add1("Mul", {w, w});
  const auto gradient =
      differentiate(g, std::vector{a, b}, std::vector{ones(g, a), ones(g, b)}, std::vector{w});
  EXPECT_EQ(interpret(g, {}).at(gradient[0]), (std::vector<double>{5, -3}));
}

TEST(Differentiate, IntermediateValuesHaveGradientsToo) {
  Graph g;
  const ValueId w = g.add_param("w", Tensor::of<float>(DType::kF32, {2}, {3, -1}));
  const ValueId h = g.add1("Neg", {w});
  const ValueId y = g.add1("Mul", {h, h});
  const auto gradient =
      differentiate(g, std::vector{y}, std::vector{ones(g, y)}, std::vector{h, w});
  const DoubleValues values = interpret(g, {});
  EXPECT_EQ(values.at(gradient[0]), (std::vector<double>{-6, 2}));
  EXPECT_EQ(values.at(gradient[1]), (std::vector<double>{6, -2}));
}

TEST(Differentiate, NoGradientReachesAParameterNobodyReads) {
  Graph g;
  const ValueId w = g.add_param("w", Tensor::of<float>(DType::kF32, {2}, {3, -1}));
  const ValueId lonely = g.add_param("lonely", Tensor::of<float>(DType::kF32, {2}, {3, -1}));
  const ValueId y = g.add1("Neg", {w});
  const ValueId seed = ones(g, y);
  EXPECT_THAT(error_of([&] {
                differentiate(g, std::vector{y}, std::vector{seed}, std::vector{w, lonely});
              }),
              HasSubstr("'lonely'"));
}

TEST(Differentiate, WhatIsFrozenCostsNoNodes) {
  const auto backward_nodes = [](bool train_first) {
    Graph g;
    const ValueId x = g.add_input("x", {DType::kF32, {2, 3}});
    const ValueId w0 = g.add_param("w0", {DType::kF32, {3, 3}});
    const ValueId w1 = g.add_param("w1", {DType::kF32, {3, 3}});
    const ValueId y = g.add1("MatMul", {g.add1("Relu", {g.add1("MatMul", {x, w0})}), w1});
    const ValueId seed = ones(g, y);
    const size_t forward = g.nodes().size();
    std::vector<ValueId> wrt = {w1};
    if (train_first) wrt.push_back(w0);
    differentiate(g, std::vector{y}, std::vector{seed}, wrt);
    std::vector<std::string> ops;
    for (size_t i = forward; i < g.nodes().size(); ++i) ops.push_back(g.nodes()[i].op);
    return ops;
  };
  const auto some = backward_nodes(false), all = backward_nodes(true);
  EXPECT_LT(some.size(), all.size());
  EXPECT_EQ(std::ranges::count(some, "ReluGrad"), 0);
  EXPECT_EQ(std::ranges::count(all, "ReluGrad"), 1);
  // dw1 alone: neither dx nor dh.
  EXPECT_EQ(std::ranges::count(some, "MatMul") + std::ranges::count(some, "Gemm"), 1);
}

// Of a weight that lies the other way round the turned copy is no part of the gradient.
TEST(Differentiate, AProductWithATransposeReadsWhatWasBeforeIt) {
  Graph g;
  const ValueId x = g.add_param("x", {DType::kF32, {2, 3}});
  const ValueId w = g.add_param("w", {DType::kF32, {4, 3}});
  const ValueId turned = g.add1("Transpose", {w}, {{"perm", Ints{1, 0}}});
  const ValueId y = g.add1("MatMul", {x, turned});
  const ValueId seed = ones(g, y);
  const size_t forward = g.nodes().size();
  const ValueId dx = differentiate(g, std::vector{y}, std::vector{seed}, std::vector{x, w})[0];
  for (size_t i = forward; i < g.nodes().size(); ++i) {
    EXPECT_EQ(std::ranges::count(g.nodes()[i].inputs, turned), 0) << g.nodes()[i].op;
    if (g.nodes()[i].outputs[0] == dx) {
      EXPECT_EQ(g.nodes()[i].inputs, (std::vector{seed, w}));
    }
  }
}

TEST(Differentiate, ASeedOfAnotherTypeIsRefused) {
  Graph g;
  const ValueId w = g.add_param("w", Tensor::of<float>(DType::kF32, {2}, {3, -1}));
  const ValueId y = g.add1("Neg", {w});
  g.rename(y, "the output");
  const ValueId seed = g.add_constant("", Tensor({DType::kF32, {3}}));
  EXPECT_THAT(
      error_of([&] { differentiate(g, std::vector{y}, std::vector{seed}, std::vector{w}); }),
      ::testing::AllOf(HasSubstr("'the output'"), HasSubstr("f32[2]"), HasSubstr("f32[3]")));
  EXPECT_THAT(error_of([&] { differentiate(g, std::vector{y}, {}, std::vector{w}); }),
              HasSubstr("1 outputs but 0 seeds"));
}

TEST(Differentiate, AnOpWithoutGradientIsNamedOnlyWhenAParameterLiesBeforeIt) {
  Graph g;
  const ValueId w = g.add_param("w", Tensor::of<float>(DType::kF32, {2}, {3, -1}));
  const ValueId x = g.add_input("x", {DType::kF32, {2}});
  ASSERT_EQ(find_op("IsNaN").gradient, nullptr);
  const auto cast = [&](ValueId v) {
    return g.add1("Cast", {g.add1("IsNaN", {v})}, {{"to", static_cast<int64_t>(DType::kF32)}});
  };
  const ValueId harmless = g.add1("Mul", {w, cast(x)});
  const ValueId seed = ones(g, harmless);
  EXPECT_NO_THROW(differentiate(g, std::vector{harmless}, std::vector{seed}, std::vector{w}));
  EXPECT_NE(error_of([&] {
              const ValueId bad = cast(w);
              differentiate(g, std::vector{bad}, std::vector{seed}, std::vector{w});
            }),
            "no error");
}

}  // namespace
}  // namespace ndtrain
