// Moments as they lie in checkpoints of format 1: in buckets of parameters.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>

#include "framework/core/tensor.h"

namespace ndtrain {

// From "bucket0.m" to "layer1.weight.m". `parameters` are those of the training, in the order in
// which it was given them. Throws Error where a bucket is of another size than theirs.
std::map<std::string, Tensor> moments_by_parameter(
    const std::map<std::string, Tensor>& in_buckets,
    std::span<const std::pair<std::string, Shape>> parameters);

}  // namespace ndtrain
