// A block of a transformer without its attention.
#pragma once

#include "tests/graph/model_builder.h"

namespace ndtrain::testing {

// x [N, 64, 192] -> norm -> first product of 256, Gelu, second product -> + x: "out". The second's
// matrix is the transpose of a weight, as PyTorch writes it.
inline Model transformer_block() {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 64, 192}}};
  m.outputs = {"out"};
  add_weight(m, "norm.bias", {192});
  m.initialisers["norm.scale"] = Tensor::of(DType::kF32, {192}, std::vector<float>(192, 1.0F));
  add_weight(m, "w1", {192, 256});
  add_weight(m, "b1", {256});
  add_weight(m, "w2", {192, 256});
  add_weight(m, "b2", {192});
  m.nodes = {{"LayerNormalization", {"x", "norm.scale", "norm.bias"}, {"norm"}, {}},
             {"MatMul", {"norm", "w1"}, {"p1"}, {}},
             {"Add", {"p1", "b1"}, {"s1"}, {}},
             {"Gelu", {"s1"}, {"h"}, {}},
             {"Transpose", {"w2"}, {"w2t"}, {{"perm", Ints{1, 0}}}},
             {"MatMul", {"h", "w2t"}, {"p2"}, {}},
             {"Add", {"p2", "b2"}, {"s2"}, {}},
             {"Add", {"s2", "x"}, {"out"}, {}}};
  return m;
}

}  // namespace ndtrain::testing
