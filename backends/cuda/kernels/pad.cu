#include "backends/cuda/kernels/grid.h"
#include "backends/cuda/kernels/pad.h"

namespace ndtrain::cuda {
namespace {

// Where position i of an axis of n elements comes from; -1: from nowhere.
NDT_DEVICE int64_t source(int64_t i, int64_t n, Border border) {
  if (i >= 0 && i < n) return i;
  if (border == Border::kConstant) return -1;
  if (border == Border::kEdge) return i < 0 ? 0 : n - 1;
  if (border == Border::kWrap) return (i % n + n) % n;
  if (n == 1) return 0;
  const int64_t period = 2 * (n - 1), at = (i % period + period) % period;
  return at < n ? at : period - at;
}

template <typename Word>
__global__ void padded(Padding p, const Word* in, const Word* value, Word* out) {
  const Word outside = value ? *value : Word{};
  for (int64_t i = first_index(); i < p.count; i += all_threads()) {
    int64_t from = 0, to = 0, left = i;
    bool inside = true;
    for (int d = p.rank - 1; d >= 0; --d) {
      const Padding::Dim& dim = p.dims[d];
      const int64_t rest = dim.extent.quotient(left), at = left - rest * dim.extent.n;
      left = rest;
      const int64_t source_at = source(at - dim.before, dim.in_extent, p.border);
      inside = inside && source_at >= 0;
      from += source_at * dim.in;
      to += at * dim.out;
    }
    out[to] = inside ? in[from] : outside;
  }
}

}  // namespace

void pad(const Padding& p, int64_t element_bytes, const void* in, const void* value, void* out,
         cudaStream_t stream) {
  if (p.count == 0) return;
  for_word(element_bytes, [&](auto word) {
    using Word = typename decltype(word)::Type;
    launch(padded<Word>, extent_for(p.count), stream, p, static_cast<const Word*>(in),
           static_cast<const Word*>(value), static_cast<Word*>(out));
  });
}

}  // namespace ndtrain::cuda
