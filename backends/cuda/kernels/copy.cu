#include "backends/cuda/kernels/copy.h"
#include "backends/cuda/kernels/grid.h"

namespace ndtrain::cuda {
namespace {

struct alignas(16) Word16 {
  uint64_t half[2];
};

template <typename Word>
__global__ void walked(Walk walk, const Word* in, Word* out) {
  for (int64_t i = first_index(); i < walk.count; i += all_threads()) {
    const Position<1> at(walk, i);
    out[at.out] = in[at.in[0]];
  }
}

constexpr int kTile = 32, kTileRows = 8;

// Of a walk, a dim along which the input is contiguous, `row`, and the inner dim, along which the
// output is: tiles of both pass through shared memory. `outer` walks the other dims.
struct Tiles {
  Walk outer;
  int64_t rows, columns;      // extents of `row` and of the inner dim
  int64_t in_step, out_step;  // along the other's dim: of the inner dim in `in`, of `row` in `out`
  Divisor across, down;       // tiles along the inner dim and along `row`
};

template <typename Word>
__global__ void tiled(Tiles t, const Word* in, Word* out) {
  __shared__ Word tile[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x) % kTile, y = static_cast<int>(threadIdx.x) / kTile;
  const int64_t tiles = t.outer.count * t.across.n * t.down.n;
  for (int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
    const int64_t rest = t.across.quotient(i), plane = t.down.quotient(rest);
    const int64_t column = (i - rest * t.across.n) * kTile, row = (rest - plane * t.down.n) * kTile;
    const Position<1> at(t.outer, plane);
    for (int j = y; j < kTile; j += kTileRows) {
      if (column + j < t.columns && row + x < t.rows) {
        tile[j][x] = in[at.in[0] + (column + j) * t.in_step + row + x];
      }
    }
    __syncthreads();
    for (int j = y; j < kTile; j += kTileRows) {
      if (row + j < t.rows && column + x < t.columns) {
        out[at.out + (row + j) * t.out_step + column + x] = tile[x][j];
      }
    }
    __syncthreads();
  }
}

// Tiles where they help: the input is contiguous along another dim than the output is.
bool tiles_of(const Walk& walk, Tiles& t) {
  const Walk::Dim& inner = walk.inner();
  constexpr int64_t kLeast = 8;  // fewer elements of a row waste most of a tile
  if (inner.out != 1 || inner.in[0] == 1 || inner.extent.n < kLeast) return false;
  for (int r = 0; r + 1 < walk.rank; ++r) {
    const Walk::Dim& row = walk.dims[r];
    if (row.in[0] != 1 || row.extent.n < kLeast) continue;
    t.outer = walk;
    t.outer.rank = 0;
    for (int d = 0; d + 1 < walk.rank; ++d) {
      if (d != r) t.outer.dims[t.outer.rank++] = walk.dims[d];
    }
    t.rows = row.extent.n;
    t.columns = inner.extent.n;
    t.in_step = inner.in[0];
    t.out_step = row.out;
    t.outer.count = walk.count / (t.rows * t.columns);
    t.across = Divisor((t.columns + kTile - 1) / kTile);
    t.down = Divisor((t.rows + kTile - 1) / kTile);
    return true;
  }
  return false;
}

template <typename Word>
void copy_as(const Walk& walk, const void* in, void* out, cudaStream_t stream) {
  Tiles t;
  const Word* from = static_cast<const Word*>(in);
  Word* to = static_cast<Word*>(out);
  if (!tiles_of(walk, t))
    return launch(walked<Word>, extent_for(walk.count), stream, walk, from, to);
  const int64_t tiles = t.outer.count * t.across.n * t.down.n;
  const Extent extent{extent_for(tiles * 256).grid, kTile * kTileRows};
  launch(tiled<Word>, extent, stream, t, from, to);
}

// The walk in words of twice the size, where it has them; a word is never wider than 16 bytes.
bool widen_word(Walk& walk, int64_t& bytes) {
  if (bytes >= 16) return false;
  const auto even = [](int64_t step) { return step % 2 == 0; };
  Walk::Dim& inner = walk.dims[walk.rank - 1];
  if (inner.out != 1 || inner.in[0] != 1 || !even(inner.extent.n)) return false;
  if (!even(walk.out_start) || !even(walk.in_start[0])) return false;
  for (int d = 0; d + 1 < walk.rank; ++d) {
    if (!even(walk.dims[d].out) || !even(walk.dims[d].in[0])) return false;
  }
  inner.extent = Divisor(inner.extent.n / 2);
  for (int d = 0; d + 1 < walk.rank; ++d) {
    walk.dims[d].out /= 2;
    walk.dims[d].in[0] /= 2;
  }
  walk.out_start /= 2;
  walk.in_start[0] /= 2;
  walk.count /= 2;
  bytes *= 2;
  return true;
}

template <typename Word>
__global__ void filled(Word* to, int64_t n, const Word* value) {
  const Word v = value ? *value : Word{};
  for (int64_t i = first_index(); i < n; i += all_threads()) to[i] = v;
}

__global__ void bytes_filled(uint8_t* to, int64_t n, uint8_t value) {
  for (int64_t i = first_index(); i < n; i += all_threads()) to[i] = value;
}

}  // namespace

void copy(const Walk& walk, int64_t element_bytes, const void* in, void* out, cudaStream_t stream) {
  if (walk.count == 0) return;
  Walk by_word = walk;
  while (widen_word(by_word, element_bytes)) {
  }
  if (element_bytes == 16) return copy_as<Word16>(by_word, in, out, stream);
  for_word(element_bytes,
           [&](auto word) { copy_as<typename decltype(word)::Type>(by_word, in, out, stream); });
}

void fill(void* to, int64_t n, int64_t element_bytes, const void* value, cudaStream_t stream) {
  if (n == 0) return;
  for_word(element_bytes, [&](auto word) {
    using Word = typename decltype(word)::Type;
    launch(filled<Word>, extent_for(n), stream, static_cast<Word*>(to), n,
           static_cast<const Word*>(value));
  });
}

void fill_bytes(void* to, int64_t n, uint8_t value, cudaStream_t stream) {
  if (n == 0) return;
  launch(bytes_filled, extent_for(n), stream, static_cast<uint8_t*>(to), n, value);
}

}  // namespace ndtrain::cuda
