// Small models to make deltas between.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "framework/core/rng.h"
#include "framework/onnx/export.h"

namespace ndtrain::testing {

inline Tensor drawn(DType dtype, Shape shape, Rng rng) {
  Tensor t({dtype, std::move(shape)});
  auto* bytes = static_cast<char*>(t.mutable_data());
  if (dtype == DType::kF32) {
    for (float& v : t.mutable_as<float>()) v = static_cast<float>(0.05 * rng.next_normal());
  } else {
    for (size_t i = 0; i < t.bytes(); ++i) bytes[i] = static_cast<char>(rng.next_bits());
  }
  return t;
}

// A convolution and a classifier; Identity nodes read whatever else is among the initialisers.
inline Model some_model(int64_t classes = 10, uint64_t seed = 1) {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 3, 8, 8}}};
  m.outputs = {"logits"};
  m.initialisers["conv.w"] = drawn(DType::kF32, {32, 3, 8, 8}, Rng(seed, "conv"));
  m.initialisers["fc.w"] = drawn(DType::kF32, {classes, 32}, Rng(seed, "fc"));
  m.initialisers["fc.b"] = drawn(DType::kF32, {classes}, Rng(seed, "bias"));
  m.nodes = {{"Conv", {"x", "conv.w"}, {"c"}, {}},
             {"Relu", {"c"}, {"r"}, {}},
             {"Flatten", {"r"}, {"f"}, {{"axis", int64_t{1}}}},
             {"Gemm", {"f", "fc.w", "fc.b"}, {"logits"}, {{"transB", int64_t{1}}}}};
  return m;
}

}  // namespace ndtrain::testing
