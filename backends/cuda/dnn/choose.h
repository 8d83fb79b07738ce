// Which engine computes a graph: the first that cuDNN suggests, or what the tuning file says, for
// which the first few are measured.
#pragma once

#include <functional>
#include <string>

#include "backends/cuda/dnn/engine.h"
#include "backends/cuda/dnn/planning.h"

namespace ndtrain::cuda {

// A photo's bits must not depend on the batch it sits in: engines are suggested and measured for
// this many images, whatever the batch, and the choice is kept by a key without it.
constexpr int64_t kImagesToChooseBy = 32;

struct Layer {
  std::string key;  // what the graph computes, but for `images`
  std::function<Graph(int64_t images)> graph;
  int64_t images = 1;
  // How many images to choose by; 0: as many as it has, where no photo's result hangs on it.
  int64_t chosen_by = kImagesToChooseBy;
  Numerics allowed;
  Fallbacks fallbacks = Fallbacks::kAlso;
};

// Throws Unsupported where no engine takes the graph.
Plan choose(const ndt_device& device, cudnnHandle_t handle, const Layer& layer);

}  // namespace ndtrain::cuda
