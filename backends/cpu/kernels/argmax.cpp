// ArgMax and ArgMin along one axis: the index of the first extreme, or of the last.
#include "backends/cpu/kernels/strided_copy.h"

namespace ndtrain::cpu {
namespace {

// x is [outer, n, inner]. NaN never beats the index held: neither comparison holds.
template <typename T, bool want_max>
std::unique_ptr<Kernel> arg(const Node& node) {
  const ndt_tensor_type& x_type = node.in(0);
  const int axis = axis_of(node, x_type.rank);
  const int64_t n = x_type.dims[axis], inner = count(x_type, axis + 1, x_type.rank);
  const bool last = node.i("select_last_index") != 0;
  return kernel([n, inner, last, outputs = count(node.out())](const void* const* in,
                                                              void* const* out, void*) {
    const T* x = as<T>(in[0]);
    int64_t* y = as<int64_t>(out[0]);
    const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, n));
    parallel_for(outputs, grain, [=](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const T* line = x + o / inner * n * inner + o % inner;
        auto best = widen(*line);
        int64_t at = 0;
        for (int64_t k = 1; k < n; ++k) {
          const auto v = widen(line[k * inner]);
          const bool better = want_max ? v > best : v < best;
          if (better || (last && v == best)) best = v, at = k;
        }
        y[o] = at;
      }
    });
  });
}

std::unique_ptr<Kernel> argmax_kernel(const Node& node) {
  return for_number(node.in(0).dtype, "ArgMax", [&]<typename T>() { return arg<T, true>(node); });
}

std::unique_ptr<Kernel> argmin_kernel(const Node& node) {
  return for_number(node.in(0).dtype, "ArgMin", [&]<typename T>() { return arg<T, false>(node); });
}

const Registered registered{
    {"ArgMax", argmax_kernel},
    {"ArgMin", argmin_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
