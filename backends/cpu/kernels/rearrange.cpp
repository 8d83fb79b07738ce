// Kernels that are one strided copy: what moves where is worked out once.
#include "backends/cpu/kernels/strided_copy.h"

namespace ndtrain::cpu {
namespace {

using Dim = StridedCopy::Dim;

std::unique_ptr<Kernel> copy_kernel(StridedCopy copy) {
  return kernel(
      [copy](const void* const* in, void* const* out, void*) { copy.run(in[0], out[0]); });
}

// The output is written in order; `from` has the input's stride for each of `dims`.
std::unique_ptr<Kernel> gathered(const Node& node, std::span<const int64_t> dims,
                                 std::span<const int64_t> from, int64_t offset = 0) {
  const std::vector<int64_t> to = strides_of(dims);
  std::vector<Dim> moves;
  for (size_t d = 0; d < dims.size(); ++d) moves.push_back({dims[d], from[d], to[d]});
  return copy_kernel(StridedCopy(moves, size_of(node.in(0).dtype), offset));
}

// Dim i of the output is dim order[i] of the input, taken to have `dims`.
std::unique_ptr<Kernel> permuted(const Node& node, std::span<const int64_t> dims,
                                 std::span<const int64_t> order) {
  const std::vector<int64_t> strides = strides_of(dims);
  std::vector<int64_t> out_dims, from;
  for (const int64_t p : order) {
    if (p < 0 || p >= static_cast<int64_t>(dims.size())) invalid("perm names dim ", p);
    out_dims.push_back(dims[p]);
    from.push_back(strides[p]);
  }
  return gathered(node, out_dims, from);
}

std::unique_ptr<Kernel> transpose_kernel(const Node& node) {
  return permuted(node, dims_of(node.in(0)), node.ints("perm"));
}

std::unique_ptr<Kernel> depth_to_space_kernel(const Node& node) {
  const auto& x = node.in(0).dims;
  const int64_t b = node.i("blocksize"), c = x[1] / (b * b);
  if (node.s("mode") == "CRD") {
    return permuted(node, std::array{x[0], c, b, b, x[2], x[3]},
                    std::array<int64_t, 6>{0, 1, 4, 2, 5, 3});
  }
  return permuted(node, std::array{x[0], b, b, c, x[2], x[3]},
                  std::array<int64_t, 6>{0, 3, 4, 1, 5, 2});
}

std::unique_ptr<Kernel> space_to_depth_kernel(const Node& node) {
  const auto& x = node.in(0).dims;
  const int64_t b = node.i("blocksize");
  return permuted(node, std::array{x[0], x[1], x[2] / b, b, x[3] / b, b},
                  std::array<int64_t, 6>{0, 3, 5, 1, 2, 4});
}

std::unique_ptr<Kernel> expand_kernel(const Node& node) {
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  const std::vector<int64_t> strides = strides_of(dims_of(x));
  std::vector<int64_t> from(static_cast<size_t>(y.rank), 0);
  for (int d = 0; d < x.rank; ++d) {
    if (x.dims[d] != 1) from[y.rank - x.rank + d] = strides[d];
  }
  return gathered(node, dims_of(y), from);
}

// Every axis is two: the repeats, which stand still in x, and the axis itself.
std::unique_ptr<Kernel> tile_kernel(const Node& node) {
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  const std::vector<int64_t> strides = strides_of(dims_of(x));
  std::vector<int64_t> dims, from;
  for (int d = 0; d < x.rank; ++d) {
    dims.insert(dims.end(), {x.dims[d] == 0 ? 0 : y.dims[d] / x.dims[d], x.dims[d]});
    from.insert(from.end(), {0, strides[d]});
  }
  return gathered(node, dims, from);
}

// ONNX's rules: negative positions count from the end, then clamp to what the step can reach.
int64_t slice_start(int64_t start, int64_t n, int64_t step) {
  if (start < 0) start += n;
  return std::clamp<int64_t>(start, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
}

std::unique_ptr<Kernel> slice_kernel(const Node& node) {
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  std::vector<int64_t> from = strides_of(dims_of(x));
  const std::vector<int64_t> starts = node.known_ints(1);
  std::vector<int64_t> axes, steps;
  if (node.has(3)) axes = node.known_ints(3);
  if (node.has(4)) steps = node.known_ints(4);
  int64_t offset = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    int64_t d = axes.empty() ? static_cast<int64_t>(i) : axes.at(i);
    if (d < 0) d += x.rank;
    if (d < 0 || d >= x.rank) invalid("axes name dim ", d);
    const int64_t step = steps.empty() ? 1 : steps.at(i);
    offset += slice_start(starts[i], x.dims[d], step) * from[d];
    // A step that one element only is taken with may be huge.
    from[d] = y.dims[d] > 1 ? from[d] * step : 0;
  }
  return gathered(node, dims_of(y), from, count(y) == 0 ? 0 : offset);
}

std::unique_ptr<Kernel> slice_grad_kernel(const Node& node) {
  const ndt_tensor_type &dy = node.in(0), &dx = node.out();
  const std::span<const int64_t> starts = node.ints("starts"), steps = node.ints("steps");
  const std::vector<int64_t> from = strides_of(dims_of(dy)), to = strides_of(dims_of(dx));
  if (starts.size() != to.size() || steps.size() != to.size() || from.size() != to.size()) {
    invalid("starts and steps do not have the rank of the input");
  }
  std::vector<Dim> moves;
  int64_t offset = 0;
  for (size_t d = 0; d < to.size(); ++d) {
    moves.push_back({dy.dims[d], from[d], dy.dims[d] > 1 ? to[d] * steps[d] : to[d]});
    offset += starts[d] * to[d];
  }
  const StridedCopy copy(moves, size_of(dy.dtype), 0, count(dy) == 0 ? 0 : offset);
  return kernel([copy, n = bytes(dx)](const void* const* in, void* const* out, void*) {
    fill_bytes(out[0], 0, n);
    copy.run(in[0], out[0]);
  });
}

const Registered registered{
    {"Transpose", transpose_kernel},
    {"DepthToSpace", depth_to_space_kernel},
    {"SpaceToDepth", space_to_depth_kernel},
    {"Expand", expand_kernel},
    {"Tile", tile_kernel},
    {"Slice", slice_kernel},
    {"SliceGrad", slice_grad_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
