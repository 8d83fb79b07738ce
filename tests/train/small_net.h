// A small classifier and rows to train it on.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "framework/core/rng.h"
#include "framework/testing/memory_fs.h"
#include "framework/train/trainer.h"

namespace ndtrain::testing {

inline constexpr int64_t kSide = 8;

// Stripes across, stripes down, or a chessboard, in noise: not separable pixel by pixel.
inline TensorDataset stripes(int64_t n, uint64_t seed) {
  Rng rng(seed, "stripes");
  Tensor x({DType::kF32, {n, 1, kSide, kSide}});
  std::vector<int64_t> labels;
  auto values = x.mutable_as<float>();
  for (int64_t i = 0; i < n; ++i) {
    labels.push_back(i % 3);
    const auto phase = static_cast<int64_t>(rng.next_below(2));
    for (int64_t r = 0; r < kSide; ++r) {
      for (int64_t c = 0; c < kSide; ++c) {
        const int64_t at = labels.back() == 0 ? r : labels.back() == 1 ? c : r + c;
        const double v = ((at + phase) % 2 == 0 ? 1 : -1) + 0.5 * rng.next_normal();
        values[static_cast<size_t>((i * kSide + r) * kSide + c)] = static_cast<float>(v);
      }
    }
  }
  return TensorDataset({x}, labels);
}

inline void add_small_weight(Model& m, const std::string& name, Shape shape) {
  const double bound = 1 / std::sqrt(static_cast<double>(shape.count(1, shape.rank())));
  Tensor t({DType::kF32, std::move(shape)});
  const Rng rng(1, name);
  auto values = t.mutable_as<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((2 * rng.uniform(i) - 1) * bound);
  }
  m.initialisers[name] = t;
}

inline Model small_net(bool batch_norm, double dropout, int64_t classes = 3) {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 1, kSide, kSide}}};
  m.outputs = {"logits"};
  add_small_weight(m, "conv.w", {8, 1, 3, 3});
  m.initialisers["conv.b"] = Tensor({DType::kF32, {8}});
  add_small_weight(m, "fc.w", {classes, 8});
  m.initialisers["fc.b"] = Tensor({DType::kF32, {classes}});
  m.nodes.push_back({"Conv", {"x", "conv.w", "conv.b"}, {"c"}, {{"pads", Ints{1, 1, 1, 1}}}});
  std::string last = "c";
  if (batch_norm) {
    const std::vector<float> ones(8, 1.0F);
    m.initialisers["bn.scale"] = Tensor::of(DType::kF32, {8}, ones);
    m.initialisers["bn.bias"] = Tensor({DType::kF32, {8}});
    m.initialisers["bn.mean"] = Tensor({DType::kF32, {8}});
    m.initialisers["bn.var"] = Tensor::of(DType::kF32, {8}, ones);
    m.nodes.push_back(
        {"BatchNormalization", {"c", "bn.scale", "bn.bias", "bn.mean", "bn.var"}, {"n"}, {}});
    last = "n";
  }
  m.nodes.push_back({"Relu", {last}, {"r"}, {}});
  m.nodes.push_back({"GlobalAveragePool", {"r"}, {"p"}, {}});
  m.nodes.push_back({"Flatten", {"p"}, {"f"}, {}});
  last = "f";
  if (dropout > 0) {
    m.initialisers["ratio"] = Tensor::of<float>(DType::kF32, {}, {static_cast<float>(dropout)});
    m.nodes.push_back({"Dropout", {"f", "ratio"}, {"d"}, {}});
    last = "d";
  }
  m.nodes.push_back({"Gemm", {last, "fc.w", "fc.b"}, {"logits"}, {{"transB", int64_t{1}}}});
  return m;
}

inline std::vector<std::string> weights_of(const Model& m) {
  std::vector<std::string> names;
  for (const auto& [name, t] : m.initialisers) {
    if (name != "bn.mean" && name != "bn.var" && name != "ratio") names.push_back(name);
  }
  return names;
}

inline std::string bytes_of(const Checkpoint& c) {
  MemoryFs fs;
  save_checkpoint(fs, "/c", c).or_throw();
  return fs.read("/c").or_throw();
}

}  // namespace ndtrain::testing
