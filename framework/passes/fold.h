#pragma once

#include <vector>

#include "framework/core/tensor.h"

namespace ndtrain {

// Batch normalisation at inference, y = (x - mean) * scale / sqrt(var + epsilon) + bias, as
// y = x * factor + offset per channel.
struct ChannelAffine {
  std::vector<double> factor, offset;
};
ChannelAffine batch_norm_affine(const Tensor& scale, const Tensor& bias, const Tensor& mean,
                                const Tensor& var, double epsilon);

}  // namespace ndtrain
