// GlobalAveragePool and GlobalMaxPool: one number per plane, joined lane by lane and then across
// lanes, in an order that depends on the plane's size alone.
#include <limits>

#include "backends/cpu/gemm/vec.h"
#include "backends/cpu/kernels/by_way_of.h"
#include "backends/cpu/kernels/kernel.h"

namespace ndtrain::cpu {
namespace {

struct Planes {
  int64_t planes, cells;
};

Planes planes_of(const Node& node) {
  const ndt_tensor_type& x = node.in(0);
  if (x.rank < 2) invalid("the input has no planes");
  const Planes p{count(x, 0, 2), count(x, 2, x.rank)};
  if (count(node.out()) != p.planes) invalid("the output is not one number per plane");
  return p;
}

template <typename F>
std::unique_ptr<Kernel> per_plane(const Planes& p, F reduce) {
  return kernel([=](const void* const* in, void* const* out, void*) {
    parallel_for(p.planes, kGrain / (p.cells + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) reduce(in[0], out[0], i);
    });
  });
}

template <typename T>
std::unique_ptr<Kernel> average(const Planes& p) {
  return per_plane(p, [n = p.cells](const void* in, void* out, int64_t plane) {
    const T* x = as<T>(in) + plane * n;
    using Sum = wide_t<T>;
    Sum sum = 0;
    int64_t i = 0;
    if constexpr (std::is_same_v<T, float>) {
      Vec lanes{};
      for (; i + kLanes <= n; i += kLanes) lanes += load(x + i);
      for (int l = 0; l < kLanes; ++l) sum += lanes[l];
    }
    for (; i < n; ++i) sum += static_cast<Sum>(x[i]);
    as<T>(out)[plane] = static_cast<T>(sum / static_cast<Sum>(n));
  });
}

template <typename T>
std::unique_ptr<Kernel> maximum(const Planes& p) {
  return per_plane(p, [n = p.cells](const void* in, void* out, int64_t plane) {
    const T* x = as<T>(in) + plane * n;
    T top = static_cast<T>(-std::numeric_limits<float>::infinity());
    for (int64_t i = 0; i < n; ++i) top = x[i] > top ? x[i] : top;
    as<T>(out)[plane] = top;
  });
}

std::unique_ptr<Kernel> make_global_average_pool(const Node& node) {
  if (node.in(0).dtype == NDT_BF16) return by_way_of_f32(node, make_global_average_pool);
  const Planes p = planes_of(node);
  return for_float(node.in(0).dtype, node.op(), [&]<typename T>() { return average<T>(p); });
}

std::unique_ptr<Kernel> make_global_max_pool(const Node& node) {
  const Planes p = planes_of(node);
  return for_float(node.in(0).dtype, node.op(), [&]<typename T>() { return maximum<T>(p); });
}

const Registered registered{
    {"GlobalAveragePool", make_global_average_pool, Trait::kPlain},
    {"GlobalMaxPool", make_global_max_pool},
};

}  // namespace
}  // namespace ndtrain::cpu
