// Ops that only move elements: any layouts for those that are one strided copy, row-major for those
// that follow indices.
#include "backends/cuda/kernels/copy.h"

#include <algorithm>

#include "backends/cuda/kernels/prepare.h"

namespace ndtrain::cuda {
namespace {

std::unique_ptr<Kernel> copy_kernel(const Walk& w, int64_t bytes) {
  return kernel([w, bytes](ndt_stream& stream, const void* const* in, void* const* out, void*) {
    copy(w, bytes, in[0], out[0], stream.stream);
  });
}

std::unique_ptr<Kernel> copy_kernel(const Node& node, std::vector<Steps> steps, int64_t start = 0) {
  Walk w = walk(std::move(steps));
  if (w.count > 0) w.in_start[0] = start;
  return copy_kernel(w, size_of(node.in(0).dtype));
}

void check_unblocked(const Node& node) {
  for (const ndt_tensor_type* t : {&node.in(0), &node.out()}) {
    if (t->channel_block > 1) unsupported(describe(*t), " is laid out in blocks of channels");
  }
}

Steps steps_of(const ndt_tensor_type& out, int d, int64_t in) {
  return {out.dims[d], out.strides[d], {in}};
}

// A space's dim d, of steps s, taken apart into x / b and x % b.
struct Parted {
  int64_t n, outer, inner;
};
Parted parted(const ndt_tensor_type& t, int d, int64_t b) {
  return {t.dims[d] / b, t.strides[d] * b, t.strides[d]};
}

int64_t slice_start(int64_t start, int64_t n, int64_t step) {
  if (start < 0) start += n;
  return std::clamp<int64_t>(start, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
}

int positive_axis(int64_t axis, int rank) {
  const int64_t d = axis < 0 ? axis + rank : axis;
  if (d < 0 || d >= rank) invalid("axes name dim ", axis);
  return static_cast<int>(d);
}

// A depth of d*b*b over pixels and a depth of d over b times as many rows and columns: `deep` and
// `wide`, in the order that CRD or DCR names.
std::vector<Steps> depth_and_space(const ndt_tensor_type& from, const ndt_tensor_type& to,
                                   bool to_space, bool depth_outermost, int64_t b) {
  const ndt_tensor_type &deep = to_space ? from : to, &wide = to_space ? to : from;
  const int64_t depth = wide.dims[1], channel = deep.strides[1];
  const int64_t of_depth = depth_outermost ? b * b : 1, of_block = depth_outermost ? 1 : depth;
  const Parted y = parted(wide, 2, b), x = parted(wide, 3, b);
  struct Pair {
    int64_t n, deep, wide;
  };
  const Pair pairs[] = {{deep.dims[0], deep.strides[0], wide.strides[0]},
                        {depth, channel * of_depth, wide.strides[1]},
                        {b, channel * of_block * b, y.inner},
                        {b, channel * of_block, x.inner},
                        {y.n, deep.strides[2], y.outer},
                        {x.n, deep.strides[3], x.outer}};
  std::vector<Steps> steps;
  for (const Pair& p : pairs) {
    steps.push_back({p.n, to_space ? p.wide : p.deep, {to_space ? p.deep : p.wide}});
  }
  return steps;
}

}  // namespace

std::unique_ptr<Kernel> prepare_reorder(ndt_device&, const Node& node) {
  auto k = copy_kernel(walk(node.out(), {node.in(0)}), size_of(node.out().dtype));
  return k;
}

// Views, outside of a plan, which aliases them.
std::unique_ptr<Kernel> prepare_view(ndt_device&, const Node& node) {
  check_row_major(node);
  if (count(node.in(0)) != count(node.out())) invalid("the output has another size than the input");
  auto k = copy_kernel(node, {{count(node.out()), 1, {1}}});
  return k;
}

std::unique_ptr<Kernel> prepare_dropout(ndt_device&, const Node& node) {
  if (node.has(2)) {
    for (const int64_t training : known_ints(node, 2, "training_mode")) {
      if (training && node.known_single(1, "ratio", 0.5F) != 0) {
        unsupported("training_mode; DropoutMask is for training");
      }
    }
  }
  const Walk w = walk(node.out(), {node.in(0)});
  const int64_t mask = node.has_output(1) ? count(node.out(1)) : 0;
  return kernel([w, mask, bytes = size_of(node.in(0).dtype)](
                    ndt_stream& stream, const void* const* in, void* const* out, void*) {
    copy(w, bytes, in[0], out[0], stream.stream);
    if (mask) fill_bytes(out[1], mask, 1, stream.stream);
  });
}

std::unique_ptr<Kernel> prepare_transpose(ndt_device&, const Node& node) {
  check_unblocked(node);
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  const auto perm = node.ints("perm");
  std::vector<Steps> steps;
  for (int d = 0; d < y.rank; ++d) {
    steps.push_back(steps_of(y, d, x.strides[positive_axis(perm[static_cast<size_t>(d)], x.rank)]));
  }
  return copy_kernel(node, std::move(steps));
}

std::unique_ptr<Kernel> prepare_depth_to_space(ndt_device&, const Node& node) {
  check_unblocked(node);
  return copy_kernel(node, depth_and_space(node.in(0), node.out(), true, node.s("mode") == "CRD",
                                           node.i("blocksize")));
}

std::unique_ptr<Kernel> prepare_space_to_depth(ndt_device&, const Node& node) {
  check_unblocked(node);
  return copy_kernel(node,
                     depth_and_space(node.in(0), node.out(), false, false, node.i("blocksize")));
}

std::unique_ptr<Kernel> prepare_expand(ndt_device&, const Node& node) {
  return copy_kernel(walk(node.out(), {node.in(0)}), size_of(node.out().dtype));
}

// Every axis is two: the repeats, which stand still in x, and the axis itself.
std::unique_ptr<Kernel> prepare_tile(ndt_device&, const Node& node) {
  check_unblocked(node);
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  std::vector<Steps> steps;
  for (int d = 0; d < x.rank; ++d) {
    const int64_t n = x.dims[d];
    steps.push_back({n == 0 ? 0 : y.dims[d] / n, y.strides[d] * n, {0}});
    steps.push_back({n, y.strides[d], {x.strides[d]}});
  }
  return copy_kernel(node, std::move(steps));
}

std::unique_ptr<Kernel> prepare_slice(ndt_device&, const Node& node) {
  check_unblocked(node);
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  std::vector<Steps> steps;
  for (int d = 0; d < y.rank; ++d) steps.push_back(steps_of(y, d, x.strides[d]));
  const std::vector<int64_t> starts = known_ints(node, 1, "starts");
  std::vector<int64_t> axes, by;
  if (node.has(3)) axes = known_ints(node, 3, "axes");
  if (node.has(4)) by = known_ints(node, 4, "steps");
  int64_t start = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int d = positive_axis(axes.empty() ? static_cast<int64_t>(i) : axes.at(i), x.rank);
    const int64_t step = by.empty() ? 1 : by.at(i);
    start += slice_start(starts[i], x.dims[d], step) * x.strides[d];
    // A step that one element only is taken with may be huge.
    steps[static_cast<size_t>(d)].in[0] = y.dims[d] > 1 ? x.strides[d] * step : 0;
  }
  return copy_kernel(node, std::move(steps), start);
}

// The output's elements that the gradient names have strides of either sign: the walk's order is
// the input's.
std::unique_ptr<Kernel> prepare_slice_grad(ndt_device&, const Node& node) {
  check_unblocked(node);
  const ndt_tensor_type &dy = node.in(0), &dx = node.out();
  const auto starts = node.ints("starts"), by = node.ints("steps");
  const auto rank = static_cast<size_t>(dx.rank);
  if (starts.size() != rank || by.size() != rank || dy.rank != dx.rank) {
    invalid("starts and steps do not have the rank of the input");
  }
  std::vector<Steps> steps;
  int64_t start = 0;
  for (int d = 0; d < dx.rank; ++d) {
    const auto k = static_cast<size_t>(d);
    steps.push_back({dy.dims[d], dx.strides[d] * (dy.dims[d] > 1 ? by[k] : 1), {dy.strides[d]}});
    start += starts[k] * dx.strides[d];
  }
  Walk w = walk(std::move(steps));
  w.out_start = start;
  if (!is_row_major(dx) && !is_channels_last(dx)) unsupported("its output has gaps");
  return kernel([w, n = count(dx), bytes = size_of(dx.dtype)](
                    ndt_stream& stream, const void* const* in, void* const* out, void*) {
    fill(out[0], n, bytes, nullptr, stream.stream);
    copy(w, bytes, in[0], out[0], stream.stream);
  });
}

// One strided copy per part; the output may have gaps after every image.
std::unique_ptr<Kernel> prepare_concat(ndt_device&, const Node& node) {
  check_unblocked(node);
  const ndt_tensor_type& y = node.out();
  const int axis = axis_of(node, y.rank);
  std::vector<Walk> copies;
  int64_t begin = 0;
  for (int i = 0; i < node.inputs(); ++i) {
    ndt_tensor_type part = y;
    part.dims[axis] = node.in(i).dims[axis];
    copies.push_back(walk(part, {node.in(i)}));
    copies.back().out_start = begin * y.strides[axis];
    begin += part.dims[axis];
  }
  if (begin != y.dims[axis]) invalid("the parts sum to ", begin, ", not to ", y.dims[axis]);
  return kernel([copies, bytes = size_of(y.dtype)](ndt_stream& stream, const void* const* in,
                                                   void* const* out, void*) {
    for (size_t i = 0; i < copies.size(); ++i) {
      copy(copies[i], bytes, in[i], out[0], stream.stream);
    }
  });
}

std::unique_ptr<Kernel> prepare_split(ndt_device&, const Node& node) {
  check_unblocked(node);
  const ndt_tensor_type& x = node.in(0);
  const int axis = axis_of(node, x.rank);
  std::vector<Walk> copies;
  int64_t begin = 0;
  for (int i = 0; i < node.outputs(); ++i) {
    ndt_tensor_type part = x;
    part.dims[axis] = node.out(i).dims[axis];
    copies.push_back(walk(node.out(i), {part}));
    copies.back().in_start[0] = begin * x.strides[axis];
    begin += part.dims[axis];
  }
  if (begin != x.dims[axis]) invalid("the parts sum to ", begin, ", not to ", x.dims[axis]);
  return kernel([copies, bytes = size_of(x.dtype)](ndt_stream& stream, const void* const* in,
                                                   void* const* out, void*) {
    for (size_t i = 0; i < copies.size(); ++i) {
      copy(copies[i], bytes, in[0], out[i], stream.stream);
    }
  });
}

}  // namespace ndtrain::cuda
