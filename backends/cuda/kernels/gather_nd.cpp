#include "backends/cuda/kernels/gather_nd.h"

#include "backends/cuda/kernels/prepare.h"

namespace ndtrain::cuda {
namespace {

constexpr std::string_view kReductions[] = {"none", "add", "mul", "min", "max"};

struct Places {
  Coordinates coordinates;
  Gathering rows;  // of the data, as one dim

  size_t flat_bytes() const { return static_cast<size_t>(coordinates.count) * sizeof(int64_t); }
};

void check_known(const Node& node, const Coordinates& c) {
  if (!node.constant(1)) return;
  const std::vector<int64_t> numbers = known_ints(node, 1, "indices");
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int64_t extent = c.extents[i % static_cast<size_t>(c.k)];
    if (numbers[i] < -extent || numbers[i] >= extent) {
      invalid("index ", numbers[i], " is not in a dim of ", extent);
    }
  }
}

// Input 1 names rows of input 0 behind `batch` dims.
Places places_of(const Node& node, int batch) {
  check_row_major(node);
  const ndt_tensor_type &x = node.in(0), &at = node.in(1);
  if (at.dtype != NDT_I64 && at.dtype != NDT_I32) unsupported("indices of ", name_of(at.dtype));
  Coordinates c{.k = at.dims[at.rank - 1], .wide = at.dtype == NDT_I64};
  const int behind = batch + static_cast<int>(c.k);
  if (batch < 0 || behind > x.rank) invalid("coordinates of ", c.k, " dims");
  Gathering g;
  for (int d = 0; d + 1 < at.rank; ++d) {
    c.count *= at.dims[d];
    if (d >= batch) c.per_batch *= at.dims[d];
  }
  for (int d = 0; d < x.rank; ++d) (d < behind ? g.extent : g.inner) *= x.dims[d];
  int64_t step = 1;
  for (int d = behind; d-- > batch; step *= x.dims[d]) {
    c.extents[d - batch] = x.dims[d];
    c.steps[d - batch] = step;
  }
  c.batch_rows = step;
  g.indices = c.count;
  check_known(node, c);
  return {c, g};
}

}  // namespace

std::unique_ptr<Kernel> prepare_gather_nd(ndt_device&, const Node& node) {
  const Places p = places_of(node, static_cast<int>(node.i("batch_dims")));
  auto k = kernel([p, bytes = size_of(node.in(0).dtype)](ndt_stream& stream, const void* const* in,
                                                         void* const* out, void* workspace) {
    auto* const flat = static_cast<int64_t*>(workspace);
    flatten(p.coordinates, p.rows.extent, in[1], flat, stream.stream);
    gather(p.rows, bytes, in[0], flat, out[0], stream.stream);
  });
  k->workspace_bytes = p.flat_bytes();
  return k;
}

std::unique_ptr<Kernel> prepare_scatter_nd(ndt_device&, const Node& node) {
  const Places p = places_of(node, 0);
  const auto* const how = std::ranges::find(kReductions, node.s("reduction"));
  if (how == std::end(kReductions)) unsupported("reduction ", node.s("reduction"));
  const auto reduction = static_cast<Scatter>(how - std::begin(kReductions));
  auto k = kernel([p, reduction, t = node.in(0).dtype](ndt_stream& stream, const void* const* in,
                                                       void* const* out, void* workspace) {
    auto* const flat = static_cast<int64_t*>(workspace);
    flatten(p.coordinates, p.rows.extent, in[1], flat, stream.stream);
    scatter(p.rows, reduction, t, in[0], flat, in[2], out[0], flat + p.coordinates.count,
            stream.stream);
  });
  k->workspace_bytes = p.flat_bytes() + sorting_workspace(p.rows);
  k->in_place_inputs = 1;
  return k;
}

}  // namespace ndtrain::cuda
