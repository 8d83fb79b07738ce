// Convolutions of 3 by 3 with stride 1 by Winograd's F(4x4, 3x3): the loops, one build for each
// instruction set. A tile is 4 by 4 pixels of the result, made of 6 by 6 of the image: where these
// and the filters are transformed, 36 numbers a channel are multiplied for each tile, not 144.
// Source: A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks" (2016), with
// the points 0, +-5/8, +-3/2, whose errors are smaller than those of 0, +-1, +-2.
//
// B is the channels of a block, images are blocked. These, what is added to the results, and the
// results are f32 or bf16; all else, and all that is computed, is f32. Sums run over the channels
// of the image in their order, one product at a time: a tile has the same bits in any run of tiles.
#pragma once

#include <cstdint>

namespace ndtrain::onednn {

constexpr int64_t kWinogradTile = 4;        // pixels of a side
constexpr int64_t kWinogradPositions = 36;  // numbers of a tile and channel, transformed

struct WinogradShape {
  int64_t in_blocks, out_blocks;     // of channels
  int64_t height, width, top, left;  // of an image, and the zeros above it and left of it
  int64_t out_height, out_width;     // of a result
  int64_t tile_columns, tiles;       // of a result
};

// Images [blocks][height][width][B], `step` numbers from one to the next.
struct WinogradImages {
  const void* data = nullptr;
  int64_t step = 0;
};

// Tiles `first` and on of all images, an image's by rows, behind those of the image before.
struct WinogradTiles {
  int64_t first, count;
};

struct WinogradFinish {
  const void* bias = nullptr;    // null: none; one for each channel
  WinogradImages residual = {};  // that is added; null: none
  float low = 0, high = 0;       // the result is kept between them; a NaN stays one
};

// Of all that is of 36, `position_step` is how many floats lie from one to the next: fastest where
// it is an odd number of lines of the cache.
struct WinogradLoops {
  // Filters [channels][9][B] of one block of results, or each rotated by 180 degrees, to
  // u [36][channels][B].
  void (*filters)(const float* w, int64_t channels, bool rotated, float* u, int64_t position_step);
  // Blocks [block, end) of the images' channels to v [36][in_blocks][tiles][B].
  void (*images)(const WinogradShape& s, WinogradImages x, WinogradTiles tiles, int64_t block,
                 int64_t end, float* v, int64_t position_step);
  // m [blocks][tiles][B]: the products of v [in_blocks][tiles][B] and
  // u [blocks][in_blocks * B][B]. What is read `next` is fetched meanwhile.
  void (*multiply)(const float* u, int64_t blocks, const float* v, int64_t in_blocks, int64_t tiles,
                   const float* next, float* m);
  // m [36][end - block][tiles][B] to blocks [block, end) of the results' channels, which may lie
  // where the residual lies.
  void (*results)(const WinogradShape& s, const float* m, int64_t position_step,
                  WinogradTiles tiles, int64_t block, int64_t end, const WinogradFinish& finish,
                  void* y, int64_t y_step);

  // Backwards, for the gradient of the filters: the transposes of `results`, `multiply` and
  // `filters`.
  // Blocks [block, end) of the results' gradients to w [36][out_blocks][tiles][B].
  void (*result_gradients)(const WinogradShape& s, WinogradImages dy, WinogradTiles tiles,
                           int64_t block, int64_t end, float* w, int64_t position_step);
  // To g [blocks][in_blocks][B][B], or from there on: the products of w [blocks][tiles][B] and
  // v [in_blocks][tiles][B], summed over the tiles in their order.
  void (*accumulate)(const float* w, int64_t blocks, const float* v, int64_t in_blocks,
                     int64_t tiles, bool add, float* g);
  // g [36][in_blocks][B][B] of one block of results to their filters' gradients
  // [B][in_blocks][9][B].
  void (*filter_gradients)(const float* g, int64_t position_step, int64_t in_blocks, float* dw);
};

namespace v2 {
WinogradLoops winograd_loops(bool bf16);
}
namespace v3 {  // needs x86-64-v3
WinogradLoops winograd_loops(bool bf16);
}
namespace v4 {  // needs x86-64-v4
WinogradLoops winograd_loops(bool bf16);
}

}  // namespace ndtrain::onednn
