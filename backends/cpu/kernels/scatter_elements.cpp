// GatherElements and ScatterElements: single elements of lines along an axis. ScatterElements goes
// through the updates in their order, so that the last of equal places counts.
#include "backends/cpu/kernels/scatter_reduction.h"
#include "backends/cpu/kernels/strided_copy.h"

namespace ndtrain::cpu {
namespace {

// Indices [at…] into data [x…] of the same rank, which differ along `axis`.
struct Elements {
  int rank, axis;
  int64_t count, extent, step;                        // of the data's axis, in elements
  std::array<int64_t, NDT_MAX_RANK> dims{}, steps{};  // of the indices; of the data, 0 at the axis
  bool wide;                                          // i64, not i32

  explicit Elements(const Node& node)
      : rank(node.in(0).rank), axis(axis_of(node, rank)), count(cpu::count(node.in(1))) {
    const ndt_tensor_type &x = node.in(0), &at = node.in(1);
    if (at.dtype != NDT_I64 && at.dtype != NDT_I32) unsupported("indices of ", name_of(at.dtype));
    if (at.rank != rank) invalid("indices of rank ", at.rank, " for data of rank ", rank);
    wide = at.dtype == NDT_I64;
    extent = x.dims[axis];
    step = cpu::count(x, axis + 1, rank);
    for (int d = 0; d < rank; ++d) {
      dims[d] = at.dims[d];
      steps[d] = d == axis ? 0 : cpu::count(x, d + 1, rank);
    }
  }

  int64_t index(const void* indices, int64_t i) const {
    const int64_t v = wide ? as<int64_t>(indices)[i] : as<int32_t>(indices)[i];
    return v < 0 ? v + extent : v;
  }

  // Before any thread starts: threads must not throw.
  void check(const void* indices) const {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t v = index(indices, i);
      if (v < 0 || v >= extent) invalid("index ", v, " is not in an axis of ", extent);
    }
  }

  // Calls f(number of an index, the element of the data that it names) for [begin, end).
  template <typename F>
  void for_each(const void* indices, int64_t begin, int64_t end, F f) const {
    if (begin == end) return;  // perhaps of no extent at all
    std::array<int64_t, NDT_MAX_RANK> at{};
    int64_t line = 0, rest = begin;
    for (int d = rank; d-- > 0; rest /= dims[d]) {
      at[d] = rest % dims[d];
      line += at[d] * steps[d];
    }
    for (int64_t i = begin; i < end; ++i) {
      f(i, line + index(indices, i) * step);
      for (int d = rank; d-- > 0;) {
        line += steps[d];
        if (++at[d] < dims[d]) break;
        line -= dims[d] * steps[d];
        at[d] = 0;
      }
    }
  }
};

std::unique_ptr<Kernel> gather_elements_kernel(const Node& node) {
  const Elements e(node);
  return for_word(size_of(node.in(0).dtype), [&]<typename T>() {
    return kernel([e](const void* const* in, void* const* out, void*) {
      e.check(in[1]);
      parallel_for(e.count, kElementGrain, [&](int64_t begin, int64_t end) {
        e.for_each(in[1], begin, end,
                   [&](int64_t i, int64_t from) { as<T>(out[0])[i] = as<T>(in[0])[from]; });
      });
    });
  });
}

template <typename T, typename F>
std::unique_ptr<Kernel> scattering(const Node& node, F combine) {
  const Elements e(node);
  auto k =
      kernel([e, combine, all = bytes(node.in(0))](const void* const* in, void* const* out, void*) {
        e.check(in[1]);
        if (in[0] != out[0]) copy_bytes(out[0], in[0], all);
        e.for_each(in[1], 0, e.count, [&](int64_t i, int64_t to) {
          T& y = as<T>(out[0])[to];
          y = combine(y, as<T>(in[2])[i]);
        });
      });
  k->in_place_inputs = 1;
  return k;
}

std::unique_ptr<Kernel> scatter_elements_kernel(const Node& node) {
  const std::string_view how = node.s("reduction");
  if (how == "none") {
    return for_word(size_of(node.in(0).dtype), [&]<typename T>() {
      return scattering<T>(node, [](T, T update) { return update; });
    });
  }
  return for_number(node.in(0).dtype, node.op(), [&]<typename T>() -> std::unique_ptr<Kernel> {
    return reducing<T>(how, [&](auto f) { return scattering<T>(node, f); });
  });
}

const Registered registered{
    {"GatherElements", gather_elements_kernel},
    {"ScatterElements", scatter_elements_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
