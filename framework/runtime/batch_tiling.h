// The first layers of a network, run a few images at a time through all of them, so that what one
// writes the next still finds in cache (as Alwani et al., "Fused-layer CNN accelerators", MICRO
// 2016, do with tiles of one image). The layers behind them take the whole batch at once: there the
// weights outweigh the images, and are to be read as seldom as can be. Which bits come out does not
// depend on it, since kernels of frozen networks give an image the same bits in any batch.
#pragma once

#include <span>
#include <vector>

#include "framework/graph/graph.h"
#include "framework/runtime/backend_abi.h"

namespace ndtrain {

struct BatchTiling {
  size_t nodes = 0;    // the first ones of the graph; 0: the whole batch goes through each
  int64_t images = 0;  // that go through them at a time
  int64_t tiles = 1;   // of the batch
  int threads = 1;     // tiles at once, each in a thread of its own
};

// When it is worth it.
struct TilingRule {
  int64_t images = 2;  // at a time: one is a little better for few networks, and worse for more
  size_t cache = size_t{2} << 20;   // bytes of a batch that would stay there anyway
  size_t outweigh = 4;              // so many times its weights are what a layer does to an image
  size_t light = size_t{64} << 10;  // bytes of weights that stay in cache from tile to tile
};

// `types`: how the values lie; all constants are known.
BatchTiling choose_tiling(const Graph& g, std::span<const ndt_tensor_type> types, int threads,
                          const TilingRule& rule);

// Without the nodes from `node` on.
BatchTiling ending_before(BatchTiling tiling, size_t node);

// The types with which its nodes are prepared: values that are not constant have as many images as
// go through at a time.
std::vector<ndt_tensor_type> tile_types(const BatchTiling& t, const Graph& g,
                                        std::span<const ndt_tensor_type> types);

}  // namespace ndtrain
