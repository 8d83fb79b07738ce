// Gather: runs of `inner` elements named by indices. GatherGrad adds them back, in the order of the
// indices, so that the sum does not depend on threads.
#include "backends/cpu/kernels/strided_copy.h"

namespace ndtrain::cpu {
namespace {

// x is [outer, extent, inner], y is [outer, indices, inner].
struct Gathering {
  int64_t outer, extent, inner, indices;
  bool wide;  // i64, not i32

  Gathering(const Node& node, std::span<const int64_t> x) {
    const int axis = axis_of(node, static_cast<int>(x.size()));
    outer = inner = 1;
    for (int d = 0; d < axis; ++d) outer *= x[d];
    for (size_t d = axis + 1; d < x.size(); ++d) inner *= x[d];
    extent = x[axis];
    indices = count(node.in(1));
    const ndt_dtype t = node.in(1).dtype;
    if (t != NDT_I64 && t != NDT_I32) unsupported("indices of ", name_of(t));
    wide = t == NDT_I64;
  }

  int64_t index(const void* data, int64_t k) const {
    const int64_t i = wide ? as<int64_t>(data)[k] : as<int32_t>(data)[k];
    return i < 0 ? i + extent : i;
  }

  // Before any thread starts: threads must not throw.
  void check(const void* data) const {
    for (int64_t k = 0; k < indices; ++k) {
      const int64_t i = index(data, k);
      if (i < 0 || i >= extent) invalid("index ", k, " is not in an axis of ", extent);
    }
  }
};

template <typename T>
std::unique_ptr<Kernel> scatter_add(const Gathering& g) {
  using W = wide_t<T>;
  constexpr bool direct = std::is_same_v<T, W>;
  const int64_t n = g.outer * g.extent * g.inner;
  auto k = kernel([g, n](const void* const* in, void* const* out, void* workspace) {
    g.check(in[1]);
    const T* dy = as<T>(in[0]);
    T* dx = as<T>(out[0]);
    W* sum = direct ? as<W>(out[0]) : as<W>(workspace);
    // A task adds to columns [begin, end) of [outer, inner] and to nothing else.
    const int64_t per_column = std::max<int64_t>(1, g.extent + g.indices);
    parallel_for(g.outer * g.inner, std::max<int64_t>(1, kElementGrain / per_column),
                 [&](int64_t begin, int64_t end) {
                   while (begin < end) {
                     const int64_t o = begin / g.inner, at = begin % g.inner;
                     const int64_t m = std::min(g.inner - at, end - begin);
                     W* to = sum + o * g.extent * g.inner + at;
                     for (int64_t e = 0; e < g.extent; ++e) std::fill_n(to + e * g.inner, m, W{});
                     for (int64_t j = 0; j < g.indices; ++j) {
                       const T* from = dy + (o * g.indices + j) * g.inner + at;
                       W* row = to + g.index(in[1], j) * g.inner;
                       for (int64_t i = 0; i < m; ++i) row[i] += widen(from[i]);
                     }
                     begin += m;
                   }
                 });
    if (direct) return;
    for (int64_t i = 0; i < n; ++i) dx[i] = static_cast<T>(sum[i]);
  });
  k->workspace_bytes = direct ? 0 : static_cast<size_t>(n) * sizeof(W);
  return k;
}

// Known places of rows of single elements: what a nearest Resize takes of the last axis.
template <typename T>
std::unique_ptr<Kernel> gather_singles(const Gathering& g, std::vector<int64_t> at) {
  auto k = kernel([g, at = std::move(at)](const void* const* in, void* const* out, void*) {
    parallel_for(g.outer, kElementGrain / (g.indices + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* x = as<T>(in[0]) + r * g.extent;
        T* y = as<T>(out[0]) + r * g.indices;
        for (int64_t j = 0; j < g.indices; ++j) y[j] = x[at[j]];
      }
    });
  });
  k->packed_inputs = 0b10;
  return k;
}

std::unique_ptr<Kernel> gather_kernel(const Node& node) {
  const Gathering g(node, dims_of(node.in(0)));
  const void* known = node.constant(1);
  if (known) g.check(known);
  if (known && g.inner == 1 && g.outer > 1) {
    std::vector<int64_t> at;
    for (int64_t j = 0; j < g.indices; ++j) at.push_back(g.index(known, j));
    return for_word(size_of(node.in(0).dtype),
                    [&]<typename T>() { return gather_singles<T>(g, std::move(at)); });
  }
  const size_t run = static_cast<size_t>(g.inner) * size_of(node.in(0).dtype);
  return kernel([g, run](const void* const* in, void* const* out, void*) {
    g.check(in[1]);
    const char* x = as<char>(in[0]);
    char* y = as<char>(out[0]);
    const int64_t grain = static_cast<int64_t>(4 * kElementGrain / std::max<size_t>(run, 1)) + 1;
    parallel_for(g.outer * g.indices, grain, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t from = k / g.indices * g.extent + g.index(in[1], k % g.indices);
        std::memcpy(y + static_cast<size_t>(k) * run, x + static_cast<size_t>(from) * run, run);
      }
    });
  });
}

std::unique_ptr<Kernel> gather_grad_kernel(const Node& node) {
  const Gathering g(node, node.ints("input_shape"));
  return for_float(node.in(0).dtype, "GatherGrad", [&]<typename T>() { return scatter_add<T>(g); });
}

const Registered registered{
    {"Gather", gather_kernel},
    {"GatherGrad", gather_grad_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
