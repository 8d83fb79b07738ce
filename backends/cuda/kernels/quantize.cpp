// QuantizeLinear, DequantizeLinear: per tensor, per index of an axis, or per block along it; and
// DynamicQuantizeLinear, from the range of the input. Any layouts, but for blocks.
#include "backends/cuda/kernels/quantize.h"

#include <algorithm>
#include <limits>

#include "backends/cuda/kernels/elementwise.h"
#include "backends/cuda/kernels/prepare.h"
#include "backends/cuda/kernels/reduce.h"

namespace ndtrain::cuda {
namespace {

struct Limits {
  double low, high;
};

Limits limits_of(ndt_dtype t) {
  switch (t) {
    case NDT_I8:
      return {-128, 127};
    case NDT_U8:
      return {0, 255};
    case NDT_I16:
      return {-32768, 32767};
    case NDT_U16:
      return {0, 65535};
    default:
      unsupported("quantises to ", name_of(t));
  }
}

Elementwise function_of(const Node& node) {
  Elementwise e;
  const bool quantizes = node.op() == "QuantizeLinear";
  e.function = quantizes ? Function::kQuantizeLinear : Function::kDequantizeLinear;
  e.inputs = node.has(2) ? 3 : 2;
  for (int i = 0; i < e.inputs; ++i) e.in[i] = node.in(i).dtype;
  e.out = node.out().dtype;
  if (quantizes) {
    const Limits limits = limits_of(e.out);
    e.a = limits.low;
    e.b = limits.high;
  } else {
    check_float(node.out());
    // f32 does not hold all of i32.
    const bool wide = e.out == NDT_F64 || size_of(e.in[0]) > 2;
    e.computed = wide ? Class::kDouble : Class::kFloat;
  }
  return e;
}

// The dims of x and y, as steps; scale and zero point stand still.
std::vector<Steps> steps_of(const Node& node) {
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  if (x.channel_block > 1 || y.channel_block > 1) unsupported("blocks of channels");
  std::vector<Steps> steps;
  for (int d = 0; d < x.rank; ++d) steps.push_back({x.dims[d], y.strides[d], {x.strides[d]}});
  return steps;
}

void set_scale_step(Steps& s, int64_t step) { s.in[1] = s.in[2] = step; }

// One part for whole blocks, and one for what an axis has beyond them.
std::vector<Walk> walks_of_blocks(const Node& node, int axis, int64_t block) {
  const ndt_tensor_type& scale = node.in(1);
  if (node.has(2) && !lie_alike(node.in(2), scale)) unsupported("its zero points lie otherwise");
  std::vector<Steps> steps = steps_of(node);
  for (int d = 0; d < scale.rank; ++d)
    set_scale_step(steps[static_cast<size_t>(d)], scale.strides[d]);
  const Steps along = steps[static_cast<size_t>(axis)];
  const int64_t whole = along.n / block, rest = along.n % block;
  Steps inside = along;
  inside.n = block;
  set_scale_step(inside, 0);
  Steps blocks = {whole, along.out * block, {along.in[0] * block, along.in[1], along.in[2]}};
  steps[static_cast<size_t>(axis)] = blocks;
  steps.push_back(inside);
  std::vector<Walk> walks = {walk(steps)};
  if (rest == 0) return walks;
  steps[static_cast<size_t>(axis)].n = 1;
  steps.back().n = rest;
  Walk last = walk(steps);
  last.out_start = whole * blocks.out;
  for (int k = 0; k < 3; ++k) last.in_start[k] = whole * blocks.in[k];
  walks.push_back(last);
  return walks;
}

std::vector<Walk> walks_of(const Node& node) {
  const ndt_tensor_type &x = node.in(0), &scale = node.in(1);
  if (node.has(2) && count(node.in(2)) != count(scale)) invalid("zero points for other scales");
  std::vector<Steps> steps = steps_of(node);
  if (count(scale) == 1) return {walk(steps)};
  const int axis = axis_of(node, x.rank);
  if (const int64_t block = node.i("block_size"); block > 0) {
    if (scale.rank != x.rank) invalid("scale is not one value per block");
    return walks_of_blocks(node, axis, block);
  }
  if (count(scale) != x.dims[axis]) {
    invalid("scale is not one value per index of axis ", axis);
  }
  set_scale_step(steps[static_cast<size_t>(axis)], 1);
  return {walk(steps)};
}

}  // namespace

std::unique_ptr<Kernel> prepare_quantize(ndt_device&, const Node& node) {
  std::vector<Elementwise> parts;
  for (const Walk& w : walks_of(node)) {
    parts.push_back(function_of(node));
    parts.back().walk = w;
  }
  return kernel([parts](ndt_stream& stream, const void* const* in, void* const* out, void*) {
    for (const Elementwise& e : parts) e.run(in, out[0], stream.stream);
  });
}

std::unique_ptr<Kernel> prepare_dynamic_quantize(ndt_device&, const Node& node) {
  check_row_major(node);
  const ndt_tensor_type& x = node.in(0);
  if (x.dtype != NDT_F32) unsupported("takes f32, not ", name_of(x.dtype));
  Reduction low{.fold = Fold::kMinNumber,
                .kept = walk(std::vector<Steps>{}),
                .folded = walk({{count(x), 1, {1}}})};
  Reduction high = low;
  high.fold = Fold::kMaxNumber;
  Elementwise e;
  e.function = Function::kQuantizeLinear;
  e.inputs = 3;
  e.in[0] = e.in[1] = NDT_F32;
  e.in[2] = e.out = NDT_U8;
  e.b = limits_of(NDT_U8).high;
  e.walk = walk({{count(x), 1, {1}}});
  auto k = kernel([=](ndt_stream& stream, const void* const* in, void* const* out, void* work) {
    float* range = static_cast<float*>(work);
    float* scale = static_cast<float*>(out[1]);
    auto* zero = static_cast<uint8_t*>(out[2]);
    void* partial = range + 4;
    low.run(in[0], nullptr, partial, range, stream.stream);
    high.run(in[0], nullptr, partial, range + 1, stream.stream);
    choose_scale(range, scale, zero, stream.stream);
    const void* operands[kMostInputs] = {in[0], scale, zero};
    e.run(operands, out[0], stream.stream);
  });
  k->workspace_bytes = 4 * sizeof(float) + low.workspace();
  return k;
}

}  // namespace ndtrain::cuda
