// MaxPoolGrad: dy goes to the first maximum of its window, in row-major order.
// AveragePoolGrad: dy is spread evenly over the cells that its average counted.
// Planes are independent; within one, outputs are taken in order.
#include <limits>

#include "backends/cpu/kernels/pool_window.h"

namespace ndtrain::cpu {
namespace {

// Calls body(plane) in parallel.
template <typename F>
void for_planes(const PoolWindow& w, const F& body) {
  parallel_for(w.planes, kGrain / (w.in_plane() + 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) body(p);
  });
}

template <typename T>
std::unique_ptr<Kernel> max_grad(const PoolWindow& w) {
  return kernel([w](const void* const* in, void* const* out, void*) {
    for_planes(w, [&](int64_t p) {
      const T* dy = as<T>(in[0]) + p * w.out_plane();
      const T* x = as<T>(in[1]) + p * w.in_plane();
      T* dx = as<T>(out[0]) + p * w.in_plane();
      std::fill(dx, dx + w.in_plane(), static_cast<T>(0.0f));
      for (int64_t o = 0; o < w.out_plane(); ++o) {
        T top = static_cast<T>(-std::numeric_limits<float>::infinity());
        int64_t from = -1;
        for_cells(w, o, [&](int64_t i) {
          if (x[i] > top) {
            top = x[i];
            from = i;
          }
        });
        if (from < 0) continue;
        dx[from] = static_cast<T>(static_cast<wide_t<T>>(dx[from]) + static_cast<wide_t<T>>(dy[o]));
      }
    });
  });
}

template <typename T>
std::unique_ptr<Kernel> average_grad(const PoolWindow& w, std::vector<float> counts) {
  return kernel([w, counts = std::move(counts)](const void* const* in, void* const* out, void*) {
    for_planes(w, [&](int64_t p) {
      const T* dy = as<T>(in[0]) + p * w.out_plane();
      T* dx = as<T>(out[0]) + p * w.in_plane();
      std::fill(dx, dx + w.in_plane(), static_cast<T>(0.0f));
      for (int64_t o = 0; o < w.out_plane(); ++o) {
        using Sum = wide_t<T>;
        const Sum share =
            static_cast<Sum>(dy[o]) / static_cast<Sum>(counts[static_cast<size_t>(o)]);
        for_cells(w, o,
                  [&](int64_t i) { dx[i] = static_cast<T>(static_cast<Sum>(dx[i]) + share); });
      }
    });
  });
}

std::unique_ptr<Kernel> make_max_pool_grad(const Node& node) {
  const PoolWindow w = pool_window(node, node.in(1), node.in(0));
  if (count(node.out()) != count(node.in(1))) invalid("dx is not like x");
  return for_float(node.in(0).dtype, node.op(), [&]<typename T>() { return max_grad<T>(w); });
}

std::unique_ptr<Kernel> make_average_pool_grad(const Node& node) {
  const PoolWindow w = pool_window(node, node.out(), node.in(0));
  std::vector<float> counts = w.counts(node.i("count_include_pad", 0) != 0);
  return for_float(node.in(0).dtype, node.op(),
                   [&]<typename T>() { return average_grad<T>(w, std::move(counts)); });
}

const Registered registered{
    {"MaxPoolGrad", make_max_pool_grad},
    {"AveragePoolGrad", make_average_pool_grad},
};

}  // namespace
}  // namespace ndtrain::cpu
