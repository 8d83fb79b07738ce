// Models written down node by node.
#pragma once

#include <functional>
#include <string>

#include "framework/graph/model.h"
#include "tests/graph/random_graph.h"

namespace ndtrain::testing {

// The message of the Error that `f` throws; "no error" when it throws none.
inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

inline void add_weight(Model& m, const std::string& name, Shape shape, uint64_t seed = 1) {
  m.initialisers[name] = random_tensor({DType::kF32, std::move(shape)}, seed, name);
}

// Conv, Relu, then what PyTorch writes for x.view(x.size(0), -1), then Gemm: input "x"
// [N, 2, 4, 4], output "logits" [N, 5].
inline Model flattening_model() {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 2, 4, 4}}};
  m.outputs = {"logits"};
  add_weight(m, "conv.w", {3, 2, 3, 3});
  add_weight(m, "fc.w", {5, 12});
  add_weight(m, "fc.b", {5});
  m.initialisers["zero"] = Tensor::i64({0}).reshaped({});
  m.initialisers["axis"] = Tensor::i64({0});
  m.initialisers["minus1"] = Tensor::i64({-1});
  m.nodes = {{"Conv", {"x", "conv.w"}, {"c"}, {}},
             {"Relu", {"c"}, {"h"}, {}},
             {"Shape", {"h"}, {"shape"}, {}},
             {"Gather", {"shape", "zero"}, {"n"}, {{"axis", int64_t{0}}}},
             {"Unsqueeze", {"n", "axis"}, {"n1"}, {}},
             {"Concat", {"n1", "minus1"}, {"target"}, {{"axis", int64_t{0}}}},
             {"Reshape", {"h", "target"}, {"flat"}, {}},
             {"Gemm", {"flat", "fc.w", "fc.b"}, {"logits"}, {{"transB", int64_t{1}}}}};
  return m;
}

}  // namespace ndtrain::testing
