// GatherND and ScatterND: rows of `block` elements named by coordinates. ScatterND goes through
// them in their order, so that the last of equal ones counts, or sums do not depend on threads.
#include "backends/cpu/kernels/by_way_of.h"
#include "backends/cpu/kernels/scatter_reduction.h"
#include "backends/cpu/kernels/strided_copy.h"

namespace ndtrain::cpu {
namespace {

// Input 1 of a node: `count` times `k` numbers, each in a dim of input 0 behind the batch dims.
struct Coordinates {
  int64_t count = 1, k, block;
  int64_t per_batch = 1, batch_elements;                 // coordinates, and elements of the data
  bool wide;                                             // i64, not i32
  std::array<int64_t, NDT_MAX_RANK> extents{}, steps{};  // steps in elements

  Coordinates(const Node& node, int batch) {
    const std::span<const int64_t> x = dims_of(node.in(0)), at = dims_of(node.in(1));
    const ndt_dtype t = node.in(1).dtype;
    if (t != NDT_I64 && t != NDT_I32) unsupported("indices of ", name_of(t));
    wide = t == NDT_I64;
    k = at.back();
    const int rank = static_cast<int>(x.size()), behind = batch + static_cast<int>(k);
    if (batch < 0 || behind > rank) invalid("coordinates of ", k, " dims");
    for (size_t d = 0; d + 1 < at.size(); ++d) {
      count *= at[d];
      if (d >= static_cast<size_t>(batch)) per_batch *= at[d];
    }
    block = cpu::count(node.in(0), behind, rank);
    batch_elements = cpu::count(node.in(0), batch, rank);
    for (int64_t d = 0; d < k; ++d) {
      extents[d] = x[batch + d];
      steps[d] = cpu::count(node.in(0), batch + static_cast<int>(d) + 1, rank);
    }
  }

  int64_t number(const void* indices, int64_t i, int64_t d) const {
    const int64_t v = wide ? as<int64_t>(indices)[i * k + d] : as<int32_t>(indices)[i * k + d];
    return v < 0 ? v + extents[d] : v;
  }

  // Before any thread starts: threads must not throw.
  void check(const void* indices) const {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t d = 0; d < k; ++d) {
        const int64_t v = number(indices, i, d);
        if (v < 0 || v >= extents[d]) invalid("index ", v, " is not in a dim of ", extents[d]);
      }
    }
  }

  // The first element that coordinate i names.
  int64_t place(const void* indices, int64_t i) const {
    int64_t at = i / per_batch * batch_elements;
    for (int64_t d = 0; d < k; ++d) at += number(indices, i, d) * steps[d];
    return at;
  }
};

// What of each row a task takes: the rows of all coordinates, so that their order is kept.
template <typename F>
void for_columns(const Coordinates& c, F&& body) {
  const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, c.count));
  parallel_for(c.block, grain, body);
}

template <typename T, typename F>
std::unique_ptr<Kernel> combining(const Coordinates& c, size_t bytes, F combine) {
  auto kernel_of = kernel([=](const void* const* in, void* const* out, void*) {
    c.check(in[1]);
    if (in[0] != out[0]) copy_bytes(out[0], in[0], bytes);
    T* y = as<T>(out[0]);
    for_columns(c, [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < c.count; ++i) {
        T* to = y + c.place(in[1], i);
        const T* from = as<T>(in[2]) + i * c.block;
        for (int64_t e = begin; e < end; ++e) to[e] = combine(to[e], from[e]);
      }
    });
  });
  kernel_of->in_place_inputs = 1;
  return kernel_of;
}

std::unique_ptr<Kernel> gather_nd_kernel(const Node& node) {
  const Coordinates c(node, static_cast<int>(node.i("batch_dims")));
  if (const void* known = node.constant(1)) c.check(known);
  const size_t size = size_of(node.in(0).dtype), run = static_cast<size_t>(c.block) * size;
  return kernel([=](const void* const* in, void* const* out, void*) {
    c.check(in[1]);
    const int64_t grain = static_cast<int64_t>(4 * kElementGrain / std::max<size_t>(run, 1)) + 1;
    parallel_for(c.count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const size_t from = static_cast<size_t>(c.place(in[1], i)) * size;
        std::memcpy(as<char>(out[0]) + static_cast<size_t>(i) * run, as<char>(in[0]) + from, run);
      }
    });
  });
}

std::unique_ptr<Kernel> scatter_nd_kernel(const Node& node) {
  const Coordinates c(node, 0);
  if (const void* known = node.constant(1)) c.check(known);
  const ndt_dtype t = node.in(0).dtype;
  const size_t all = bytes(node.in(0));
  const std::string_view how = node.s("reduction");
  if (how == "none") {
    return for_word(size_of(t), [&]<typename T>() {
      return combining<T>(c, all, [](T, T update) { return update; });
    });
  }
  return for_wide_number(node, scatter_nd_kernel, [&]<typename T>() -> std::unique_ptr<Kernel> {
    return reducing<T>(how, [&](auto f) { return combining<T>(c, all, f); });
  });
}

const Registered registered{
    {"GatherND", gather_nd_kernel},
    {"ScatterND", scatter_nd_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
