// What photos are compared by: their features, averaged over places in the photo (global average
// pooling) and scaled to length 1, so that the product of two is the cosine of their angle.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "framework/core/shape.h"

namespace ndtrain::ndp {

using Embedding = std::vector<float>;

// How many numbers that is. `outputs`: an extractor's, for a batch of 1. One of rank 3, [1,T,C], is
// averaged over T tokens; one of a higher rank, [1,C,...], over what is behind C; any other is
// taken as it is. What they make stands one behind the other.
size_t embedding_size(std::span<const TensorType> outputs);

// `row`: those outputs for one photo, one after the other. Nullopt: its length is 0 or no number.
std::optional<Embedding> embedding_of(std::span<const TensorType> outputs,
                                      std::span<const std::byte> row);

// Of two of length 1 and as many numbers.
float cosine(const Embedding& a, const Embedding& b);

// To length 1. False: it has none.
bool normalise(Embedding& embedding);

}  // namespace ndtrain::ndp
