#include <gtest/gtest.h>

#include "framework/passes/rewrites.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::count_nodes;
using testing::interpret_named;
using testing::largest_difference;
using testing::named_inputs;
using testing::random_tensor;

// Rows of four numbers times a matrix of four by five.
class FuseMatMul : public ::testing::Test {
 protected:
  ValueId param(Shape s) {
    const std::string name = "p" + std::to_string(params_++);
    return g.add_param(name, random_tensor({DType::kF32, std::move(s)}, 1, name));
  }
  ValueId matmul() { return g.add1("MatMul", {x, param({4, 5})}); }
  ValueId gemm(const Attrs& attrs = {}) {
    return g.add1("Gemm", {rows, param({4, 5}), param({5})}, attrs);
  }
  ValueId biased(ValueId v, Shape s = {5}) { return g.add1("Add", {v, param(std::move(s))}); }
  ValueId relu(ValueId v) { return g.add1("Relu", {v}); }

  // Fuses for a device that takes what `takes` says, and checks that the numbers stay.
  Graph fused(const Accepts& takes, std::span<const ValueId> keep = {}) {
    Rewritten r = rewrite(g, kProducts, keep, takes);
    const auto given = named_inputs(g, 1);
    EXPECT_EQ(largest_difference(interpret_named(r.graph, given), interpret_named(g, given)), 0);
    for (size_t k = 0; k < g.outputs().size(); ++k) {
      EXPECT_EQ(r.now[index(g.outputs()[k])], r.graph.outputs()[k]);
      EXPECT_EQ(r.graph.value(r.graph.outputs()[k]).name, g.value(g.outputs()[k]).name);
    }
    return std::move(r.graph);
  }
  Graph all_fused() {
    return fused([](Needs, const Graph&, const Node&) { return true; });
  }
  int left() { return count_nodes(all_fused(), "FusedMatMul"); }

  Graph g;
  ValueId x = g.add_input("x", {DType::kF32, {2, 3, 4}}),
          rows = g.add_input("rows", {DType::kF32, {3, 4}});

 private:
  int params_ = 0;
};

TEST_F(FuseMatMul, ProductBiasAndActivation) {
  g.mark_output(relu(biased(matmul())));
  g.mark_output(g.add1("Gelu", {biased(matmul(), {1, 1, 5})}, {{"approximate", "tanh"}}));
  g.mark_output(relu(g.add1("Add", {param({5}), matmul()})));
  const Graph r = all_fused();
  ASSERT_EQ(r.nodes().size(), 3U);
  EXPECT_EQ(count_nodes(r, "FusedMatMul"), 3);
  EXPECT_EQ(r.nodes()[1].attrs.s("steps"), "Gelu x0 approximate=tanh");
  EXPECT_EQ(
      count_nodes(fused([](Needs, const Graph&, const Node&) { return false; }), "FusedMatMul"), 0);
}

TEST_F(FuseMatMul, AProductWithoutABiasOrWithoutAnActivation) {
  g.mark_output(relu(matmul()));
  g.mark_output(biased(matmul()));
  g.mark_output(relu(g.add1("Gemm", {rows, param({4, 5})})));
  EXPECT_EQ(left(), 3);
}

TEST_F(FuseMatMul, AGemmBringsItsBias) {
  g.mark_output(relu(gemm()));
  g.mark_output(relu(g.add1("Gemm", {rows, param({5, 4}), param({5})}, {{"transB", int64_t{1}}})));
  EXPECT_EQ(left(), 2);
}

TEST_F(FuseMatMul, ADeviceWithoutTheActivationMayTakeTheRest) {
  g.mark_output(g.add1("Gelu", {biased(matmul())}));
  g.mark_output(relu(gemm()));
  const Graph r =
      fused([](Needs, const Graph&, const Node& n) { return n.attrs.s("steps").empty(); });
  EXPECT_EQ(count_nodes(r, "FusedMatMul"), 1);
  EXPECT_EQ(count_nodes(r, "Gelu"), 1);
  EXPECT_EQ(count_nodes(r, "Gemm"), 1) << "a Gemm has its bias anyway";
}

TEST_F(FuseMatMul, OfTwoSingleRowsThatAreAddedOneIsTheBias) {
  const ValueId row = g.add_input("row", {DType::kF32, {1, 4}});
  const ValueId a = g.add1("MatMul", {row, param({4, 5})}),
                b = g.add1("MatMul", {row, param({4, 5})});
  g.mark_output(relu(g.add1("Add", {a, b})));
  const Graph r = all_fused();
  EXPECT_EQ(count_nodes(r, "FusedMatMul"), 1);
  EXPECT_EQ(count_nodes(r, "MatMul"), 1);
}

TEST_F(FuseMatMul, ASingleRowThatIsAddedToItselfStays) {
  const ValueId y = g.add1("MatMul", {g.add_input("row", {DType::kF32, {1, 4}}), param({4, 5})});
  g.mark_output(relu(g.add1("Add", {y, y})));
  EXPECT_EQ(left(), 0);
}

TEST_F(FuseMatMul, WhatIsReadElsewhereStays) {
  const ValueId y = matmul(), z = biased(matmul());
  g.mark_output(biased(y));
  g.mark_output(y);
  g.mark_output(relu(z));
  g.mark_output(g.add1("Sigmoid", {z}));
  const Graph r = all_fused();
  EXPECT_EQ(count_nodes(r, "FusedMatMul"), 1) << "the second product with its bias";
  EXPECT_EQ(count_nodes(r, "Relu"), 1);
}

TEST_F(FuseMatMul, OtherProductsAndSumsStay) {
  g.mark_output(relu(gemm({{"alpha", 0.5}})));
  g.mark_output(relu(gemm({{"beta", 2.0}})));
  g.mark_output(gemm());
  g.mark_output(biased(matmul(), {2, 3, 5}));
  g.mark_output(biased(matmul(), {3, 1}));
  g.mark_output(biased(matmul(), {1}));
  g.mark_output(biased(matmul(), {1, 1, 1, 5}));
  g.mark_output(biased(g.add1("MatMul", {x, param({2, 4, 5})})));
  EXPECT_EQ(left(), 0);
}

TEST_F(FuseMatMul, TheDeviceIsToldWhichWeightsMayChange) {
  const ValueId w = param({4, 5}), b = param({5});
  g.mark_output(relu(g.add1("Add", {g.add1("MatMul", {x, w}), b})));
  int constants = 0;
  const Accepts counts = [&](Needs, const Graph& with, const Node& n) {
    constants = 0;
    for (ValueId v : n.inputs) constants += with.value(v).data.defined() ? 1 : 0;
    return true;
  };
  fused(counts);
  EXPECT_EQ(constants, 2);
  fused(counts, std::vector{w});
  EXPECT_EQ(constants, 1);
}

}  // namespace
}  // namespace ndtrain
