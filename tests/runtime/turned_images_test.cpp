// Transposes that bring channels behind their pixels and back, on the onednn plugin: where images
// lie channels-last, or are to, nothing is moved.
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/passes/passes.h"
#include "framework/runtime/executor.h"
#include "framework/runtime/interpreter.h"
#include "framework/runtime/layout.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::count_nodes;
using testing::largest_difference;
using testing::random_inputs;
using testing::random_tensor;

class TurnedImages : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<std::string> all = Backend::available();
    if (std::ranges::find(all, "onednn") == all.end()) GTEST_SKIP() << "onednn was not built";
  }

  ValueId weight(const std::string& name, Shape s) {
    return g.add_param(name, random_tensor({DType::kF32, std::move(s)}, 1, name));
  }
  ValueId turn(ValueId v, Ints perm) {
    return g.add1("Transpose", {v}, {{"perm", std::move(perm)}});
  }
  ValueId pixels(ValueId images) { return turn(images, {0, 2, 3, 1}); }
  ValueId images(ValueId pixels) { return turn(pixels, {0, 3, 1, 2}); }
  ValueId normalised(ValueId v) {
    const int64_t n = g.shape(v)[-1];
    return g.add1("LayerNormalization", {v, weight("scale", {n}), weight("bias", {n})});
  }
  ValueId conv(ValueId v, const std::string& name, int64_t out, int64_t kernel, int64_t group = 1) {
    const ValueId w = weight(name, {out, g.shape(v)[1] / group, kernel, kernel});
    return g.add1("Conv", {v, w}, {{"pads", Ints(4, kernel / 2)}, {"group", group}});
  }

  // How many Transposes are left on the plugin, which gives the interpreter's numbers.
  int turned() {
    const Graph r = optimize_for_inference(g);
    const Device device(Backend::find("onednn"), {.deterministic = true});
    const std::vector<Tensor> inputs = random_inputs(r, 1);
    const auto doubles = [](const std::vector<Tensor>& tensors) {
      std::vector<std::vector<double>> all;
      for (const Tensor& t : tensors) all.push_back(t.to_doubles());
      return all;
    };
    EXPECT_LE(largest_difference(doubles(Executor(Plan(r, device)).run(inputs)),
                                 doubles(interpret_outputs(r, inputs))),
              2e-4);
    return count_nodes(assign_layouts(r, device, {}).graph, "Transpose");
  }

  Graph g;
};

TEST_F(TurnedImages, ABlockOfConvNextTurnsNone) {
  const ValueId x = conv(g.add_input("x", {DType::kF32, {2, 3, 12, 12}}), "stem", 32, 3);
  const ValueId mixed = normalised(pixels(conv(x, "depth", 32, 7, 32)));
  const ValueId wide = g.add1("Gelu", {g.add1("MatMul", {mixed, weight("up", {32, 64})})});
  const ValueId y = images(g.add1("MatMul", {wide, weight("down", {64, 32})}));
  const ValueId sum = g.add1("Add", {g.add1("Mul", {y, weight("gamma", {32, 1, 1})}), x});
  g.mark_output(conv(sum, "next", 32, 3));
  EXPECT_EQ(turned(), 0);
}

TEST_F(TurnedImages, WhatLiesRowMajorAndIsReadSoIsTurned) {
  const ValueId x = g.add_input("x", {DType::kF32, {2, 3, 5, 4}});
  g.mark_output(g.add1("ReduceMax", {pixels(x), g.add_constant("", Ints{1})}));
  g.mark_output(g.add1("ReduceMax", {images(x), g.add_constant("", Ints{1})}));
  EXPECT_EQ(turned(), 2);
}

TEST_F(TurnedImages, SeveralReadersAndOutputsSeeTheSame) {
  const ValueId x = conv(g.add_input("x", {DType::kF32, {2, 3, 6, 5}}), "stem", 24, 3);
  const ValueId last = pixels(x);
  g.mark_output(last);
  g.mark_output(g.add1("Relu", {x}));
  g.mark_output(normalised(last));
  g.mark_output(
      g.add1("Concat", {conv(x, "a", 16, 3), images(normalised(last))}, {{"axis", int64_t{1}}}));
  const ValueId first = images(normalised(last));
  g.mark_output(first);
  g.mark_output(conv(first, "b", 8, 1));
  EXPECT_LE(turned(), 1);
}

TEST_F(TurnedImages, APatchEmbeddingIsRowsOfPixels) {
  const ValueId x = conv(g.add_input("x", {DType::kF32, {3, 3, 8, 8}}), "patch", 32, 1);
  const ValueId rows = turn(g.add1("Reshape", {x, g.add_constant("", Ints{3, 32, 64})}), {0, 2, 1});
  const ValueId tokens = turn(turn(rows, {1, 0, 2}), {1, 0, 2});
  g.mark_output(g.add1("MatMul", {tokens, weight("w", {32, 8})}));
  EXPECT_EQ(turned(), 0);
}

}  // namespace
}  // namespace ndtrain
