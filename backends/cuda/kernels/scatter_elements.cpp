#include "backends/cuda/kernels/scatter_elements.h"

#include "backends/cuda/kernels/prepare.h"

namespace ndtrain::cuda {
namespace {

constexpr std::string_view kHow[] = {"none", "add", "mul", "min", "max"};

ElementPlaces elements_of(const Node& node) {
  check_row_major(node);
  const ndt_tensor_type &x = node.in(0), &at = node.in(1);
  if (at.dtype != NDT_I64 && at.dtype != NDT_I32) unsupported("indices of ", name_of(at.dtype));
  if (at.rank != x.rank) invalid("indices of rank ", at.rank, " for data of rank ", x.rank);
  ElementPlaces e{.count = count(at), .elements = count(x), .rank = x.rank};
  e.axis = axis_of(node, x.rank);
  e.extent = x.dims[e.axis];
  e.wide = at.dtype == NDT_I64;
  for (int d = 0; d < x.rank; ++d) {
    e.dims[d] = at.dims[d];
    e.steps[d] = count(x, d + 1);
  }
  if (!node.constant(1)) return e;
  for (const int64_t i : known_ints(node, 1, "indices")) {
    if (i < -e.extent || i >= e.extent) invalid("index ", i, " is not in an axis of ", e.extent);
  }
  return e;
}

// The data as rows of one element.
Gathering rows_of(const ElementPlaces& e) { return {.extent = e.elements, .indices = e.count}; }

size_t flat_bytes(const ElementPlaces& e) { return static_cast<size_t>(e.count) * sizeof(int64_t); }

}  // namespace

std::unique_ptr<Kernel> prepare_gather_elements(ndt_device&, const Node& node) {
  const ElementPlaces e = elements_of(node);
  auto k = kernel([e, bytes = size_of(node.in(0).dtype)](ndt_stream& stream, const void* const* in,
                                                         void* const* out, void* workspace) {
    auto* const flat = static_cast<int64_t*>(workspace);
    flatten_elements(e, in[1], flat, stream.stream);
    gather(rows_of(e), bytes, in[0], flat, out[0], stream.stream);
  });
  k->workspace_bytes = flat_bytes(e);
  return k;
}

std::unique_ptr<Kernel> prepare_scatter_elements(ndt_device&, const Node& node) {
  const ElementPlaces e = elements_of(node);
  const auto* const how = std::ranges::find(kHow, node.s("reduction"));
  if (how == std::end(kHow)) unsupported("reduction ", node.s("reduction"));
  const auto reduction = static_cast<Scatter>(how - std::begin(kHow));
  auto k = kernel([e, reduction, t = node.in(0).dtype](ndt_stream& stream, const void* const* in,
                                                       void* const* out, void* workspace) {
    auto* const flat = static_cast<int64_t*>(workspace);
    flatten_elements(e, in[1], flat, stream.stream);
    scatter(rows_of(e), reduction, t, in[0], flat, in[2], out[0], flat + e.count, stream.stream);
  });
  k->workspace_bytes = flat_bytes(e) + sorting_workspace(rows_of(e));
  k->in_place_inputs = 1;
  return k;
}

}  // namespace ndtrain::cuda
