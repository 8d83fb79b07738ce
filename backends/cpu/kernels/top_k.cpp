// TopK: x is [outer, n, inner]; each line's places are put in order as far as they are wanted, by
// value and then by place, so that the order is one whatever sorts.
#include <cmath>
#include <numeric>

#include "backends/cpu/kernels/strided_copy.h"

namespace ndtrain::cpu {
namespace {

struct Top {
  int64_t outer = 1, n, inner, k;
  bool largest;

  explicit Top(const Node& node) : largest(node.i("largest") != 0) {
    const ndt_tensor_type &x = node.in(0), &y = node.out();
    const int axis = axis_of(node, x.rank);
    outer = count(x, 0, axis);
    n = x.dims[axis];
    inner = count(x, axis + 1, x.rank);
    k = y.dims[axis];
    if (k > n) invalid("wants ", k, " of ", n);
  }
};

// NaN counts as larger than any number.
template <typename W>
bool above(W a, W b) {
  if constexpr (std::is_floating_point_v<W>) {
    if (std::isnan(a)) return !std::isnan(b);
  }
  return a > b;
}

template <typename T>
void sort_line(const Top& t, const T* x, int64_t* order, T* y, int64_t* places) {
  std::iota(order, order + t.n, int64_t{0});
  std::partial_sort(order, order + t.k, order + t.n, [&](int64_t a, int64_t b) {
    const auto va = widen(x[a * t.inner]), vb = widen(x[b * t.inner]);
    if (t.largest ? above(va, vb) : above(vb, va)) return true;
    return a < b && !(t.largest ? above(vb, va) : above(va, vb));
  });
  for (int64_t i = 0; i < t.k; ++i) {
    y[i * t.inner] = x[order[i] * t.inner];
    if (places) places[i * t.inner] = order[i];
  }
}

template <typename T>
std::unique_ptr<Kernel> top(const Node& node) {
  const Top t(node);
  const int slots = threads();
  auto k = kernel([t, slots, both = node.outputs() > 1](const void* const* in, void* const* out,
                                                        void* workspace) {
    parallel_tasks(t.outer * t.inner, slots, [&](int64_t line, int slot) {
      const int64_t o = line / t.inner, i = line % t.inner, to = o * t.k * t.inner + i;
      sort_line(t, as<T>(in[0]) + o * t.n * t.inner + i, as<int64_t>(workspace) + slot * t.n,
                as<T>(out[0]) + to, both ? as<int64_t>(out[1]) + to : nullptr);
    });
  });
  k->workspace_bytes = static_cast<size_t>(slots) * static_cast<size_t>(t.n) * sizeof(int64_t);
  return k;
}

std::unique_ptr<Kernel> top_k_kernel(const Node& node) {
  return for_number(node.in(0).dtype, node.op(), [&]<typename T>() { return top<T>(node); });
}

const Registered registered{{"TopK", top_k_kernel}};

}  // namespace
}  // namespace ndtrain::cpu
