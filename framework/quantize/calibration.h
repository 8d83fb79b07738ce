#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "framework/graph/model.h"
#include "framework/quantize/histogram.h"
#include "framework/runtime/backend.h"

namespace ndtrain {

// What is known of one activation after photos have gone through the model.
struct Activation {
  Histogram magnitudes;
  double lowest = 0, highest = 0;    // 0 included
  std::vector<double> channel_mean;  // over everything but dim 1
  // By index of the last axis, which is what products sum over.
  std::vector<double> lane_largest, lane_square;  // magnitude; mean square
};

// Runs the f32 model over `batches` (tensors of its one input, all of one shape) and watches
// `values`. Throws Error without photos, or when a value holds no finite number.
std::map<std::string, Activation> watch_activations(const Model& model,
                                                    std::span<const std::string> values,
                                                    std::span<const Tensor> batches,
                                                    const Device& device);

}  // namespace ndtrain
