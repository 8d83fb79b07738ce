#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "framework/graph/model.h"
#include "framework/runtime/backend.h"

namespace ndtrain {

struct QuantizeOptions {
  std::vector<std::string> until = {};  // values whose computation is quantised; {}: the outputs
  // Convolutions and products of matrices stay f32, the most sensitive first, until the features of
  // a photo have this cosine with those of f32, on average; never more than the share below.
  double least_cosine = 0.99;
  double most_kept = 0.25;
  // What else must hold of the int8 form; likewise. {}: nothing.
  std::function<bool(const Model&)> accepts = {};
};

struct Quantization {
  Model model;                    // QDQ, declared int8
  int64_t convolutions = 0;       // that compute on bytes
  int64_t products = 0;           // of matrices, likewise
  int64_t smoothed = 0;           // layer normalisations (smooth.h)
  std::vector<std::string> kept;  // outputs of those that stay f32
  double cosine = 0;              // on the photos, as above
};

// The int8 form of `model`, whose scales are measured on `batches` (tensors of its one input, all
// of one shape). The same photos give the same model on the same device. Throws Error when the
// model has nothing to quantise, or the photos are too few.
Quantization quantize(const Model& model, std::span<const Tensor> batches, const Device& device,
                      const QuantizeOptions& options = {},
                      const std::function<void(const std::string&)>& say = {});

// The mean over rows of the cosine between rows of `a` and of `b`.
double mean_cosine(std::span<const Tensor> a, std::span<const Tensor> b);

}  // namespace ndtrain
