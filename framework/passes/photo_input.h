#pragma once

#include <array>

#include "framework/graph/graph.h"

namespace ndtrain {

// How the floats that a network reads follow from the bytes of a crop.
struct PhotoInput {
  std::array<float, 3> mean = {}, std = {};
  bool channels_last = false;  // the network reads [N, H, W, 3], else [N, 3, H, W]
};

// `g` with its one input as u8 [N, H, W, 3], made floats by a NormalizePhotos. Throws Error when it
// reads anything but one such photo per row.
Graph reading_photos(const Graph& g, const PhotoInput& photos);

}  // namespace ndtrain
