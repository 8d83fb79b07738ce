// Steps of small models for tests of the profiler.
#pragma once

#include <algorithm>

#include "framework/train/head.h"
#include "framework/train/step_nodes.h"
#include "models/zoo.h"
#include "tests/graph/model_builder.h"

namespace ndtrain::testing {

inline StepGraph step_of(const Model& m, int64_t batch, const std::string& freeze = "none",
                         DType compute = DType::kF32) {
  return make_step_graph(bind(m, batch), trainable_parameters(m, freeze), 0, compute);
}

// For three classes, of photos that are small, but that every window fits into.
inline Model small_model(std::string_view name) {
  constexpr int64_t kSide = 32;  // two patches of a transformer
  return build_model(
      name, {.classes = 3, .img_size = std::max(kSide, find_in_zoo(name)->least_img_size)});
}

// Of a forward node by the name of what it makes.
inline size_t node_called(const StepNodes& nodes, const std::string& name) {
  const auto it = std::ranges::find(nodes.names, name);
  if (it == nodes.names.end()) throw Error("test: no node ", name);
  return static_cast<size_t>(it - nodes.names.begin());
}

}  // namespace ndtrain::testing
