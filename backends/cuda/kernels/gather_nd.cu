#include "backends/cuda/kernels/gather_nd.h"
#include "backends/cuda/kernels/grid.h"

namespace ndtrain::cuda {
namespace {

__global__ void flattened(Coordinates c, int64_t rows, const void* indices, int64_t* flat) {
  for (int64_t i = first_index(); i < c.count; i += all_threads()) {
    int64_t row = i / c.per_batch * c.batch_rows;
    bool inside = true;
    for (int64_t d = 0; d < c.k; ++d) {
      const int64_t at = i * c.k + d;
      int64_t v = c.wide ? static_cast<const int64_t*>(indices)[at]
                         : static_cast<const int32_t*>(indices)[at];
      v = v < 0 ? v + c.extents[d] : v;
      inside = inside && v >= 0 && v < c.extents[d];
      row += v * c.steps[d];
    }
    flat[i] = inside ? row : -1 - rows;
  }
}

template <typename W>
NDT_DEVICE W combined(Scatter how, W a, W b) {
  switch (how) {
    case Scatter::kAdd:
      return a + b;
    case Scatter::kMul:
      return a * b;
    case Scatter::kMin:
      return b < a ? b : a;
    case Scatter::kMax:
      return a < b ? b : a;
    default:
      return b;
  }
}

template <typename W>
__global__ void scattered(Gathering g, Scatter how, ndt_dtype t, const void* data,
                          SortedIndices sorted, const void* updates, void* out) {
  const int64_t n = g.extent * g.inner;
  for (int64_t i = first_index(); i < n; i += all_threads()) {
    const int64_t row = i / g.inner, column = i - row * g.inner;
    W y = load<W>(data, t, i);
    for (int64_t p = sorted.starts[row]; p < sorted.starts[row + 1]; ++p) {
      const int64_t update = sorted.keys[p] - row * g.indices;
      y = combined(how, y, load<W>(updates, t, update * g.inner + column));
    }
    store(out, t, i, y);
  }
}

}  // namespace

void flatten(const Coordinates& c, int64_t rows, const void* indices, int64_t* flat,
             cudaStream_t stream) {
  if (c.count > 0) launch(flattened, extent_for(c.count), stream, c, rows, indices, flat);
}

void scatter(const Gathering& g, Scatter how, ndt_dtype t, const void* data, const int64_t* flat,
             const void* updates, void* out, void* workspace, cudaStream_t stream) {
  const int64_t n = g.extent * g.inner;
  if (n == 0) return;
  const SortedIndices sorted = sort_indices(g, flat, workspace, stream);
  const auto start = [&](auto kernel) {
    launch(kernel, extent_for(n), stream, g, how, t, data, sorted, updates, out);
  };
  switch (class_of(t)) {
    case Class::kFloat:
      return start(scattered<float>);
    case Class::kDouble:
      return start(scattered<double>);
    case Class::kSigned:
      return start(scattered<int64_t>);
    case Class::kUnsigned:
      return start(scattered<uint64_t>);
  }
}

}  // namespace ndtrain::cuda
