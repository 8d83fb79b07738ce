// What version 3 of the library does its own way: dnnl_v2.cpp is its twin.
#include <algorithm>

#include "backends/onednn/dnnl_make.h"

namespace ndtrain::onednn {
namespace {

using Fixed = Primitive::Fixed;
using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

// Laid out as the primitive likes.
Desc free_desc(const Desc& desc) { return {desc.get_dims(), desc.get_data_type(), Tag::any}; }

// What the library wants to know of the way forward before it goes back. Gradients of weights may
// be wider than these.
dnnl::convolution_forward::primitive_desc forward_of(const Convolution& c) {
  using F = dnnl::convolution_forward;
  const Desc weights(c.weights.get_dims(), c.src.get_data_type(), Tag::any);
  return F::primitive_desc(engine(), dnnl::prop_kind::forward_training, kDirect, c.src, weights,
                           c.dst, c.strides, c.dilations, c.begin, c.end);
}

// HardSwish is x * clip(alpha * x + beta, 0, 1) here.
Activation with_slope(const Activation& a) {
  if (a.kind != dnnl::algorithm::eltwise_hardswish) return a;
  return {a.kind, 1.0F / 6, 0.5F};
}

template <typename T>
dnnl::memory memory_of(const Desc& desc, const std::vector<T>& values) {
  dnnl::memory m(desc, engine());
  std::ranges::copy(values, static_cast<T*>(m.get_data_handle()));
  return m;
}

dnnl::primitive_attr plain() {
  dnnl::primitive_attr a;
  a.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return a;
}

void set_zero_point(dnnl::primitive_attr& a, Fixed& fixed, int arg, int32_t zero) {
  if (zero == 0) return;
  a.set_zero_points_mask(arg, 0);
  fixed.emplace_back(DNNL_ARG_ATTR_ZERO_POINTS | arg,
                     memory_of<int32_t>({{1}, Type::s32, Tag::a}, {zero}));
}

// A bias is not scaled by the attributes of this version, which has no scales of the output: they
// are a product after the sum instead, for each channel: index 1 of a result of `rank`.
void append_scales(dnnl::post_ops& post, Fixed& fixed, const std::vector<float>& scales, int rank) {
  Dims dims(static_cast<size_t>(rank), 1);
  dims[1] = static_cast<int64_t>(scales.size());
  const Desc desc(dims, Type::f32, rank == 2 ? Tag::ab : Tag::abcd);
  post.append_binary(dnnl::algorithm::binary_mul, desc);
  fixed.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, memory_of(desc, scales));
}

dnnl::primitive_attr attributes(const Finish& f, Fixed& fixed, int rank) {
  dnnl::primitive_attr a = plain();
  set_zero_point(a, fixed, DNNL_ARG_SRC, f.src_zero);
  set_zero_point(a, fixed, DNNL_ARG_DST, f.dst_zero);
  dnnl::post_ops post;
  if (!f.scales.empty()) append_scales(post, fixed, f.scales, rank);
  if (f.sum) post.append_sum(f.sum_scale, f.sum_zero, f.sum_type);
  if (f.activation) {
    const Activation act = with_slope(*f.activation);
    post.append_eltwise(act.kind, act.alpha, act.beta);
  }
  if (f.factor != 1) post.append_eltwise(dnnl::algorithm::eltwise_linear, f.factor, 0.0F);
  a.set_post_ops(post);
  return a;
}

// Descriptors hide what they are made of: the tag that gives an equal one.
Tag tag_of(const Desc& desc) {
  for (int t = dnnl_format_tag_any + 1; t < dnnl_format_tag_last; ++t) {
    const auto tag = static_cast<Tag>(t);
    const Desc like(desc.get_dims(), desc.get_data_type(), tag, true);
    if (like && like == desc) return tag;
  }
  unsupported("oneDNN's layout has no name");
}

}  // namespace

// Not the library's own submemory, for which kernels are refused.
DescPart cut(const Desc& whole, const Dims& dims, const Dims& first) {
  try {
    const Desc there = whole.submemory_desc(dims, first);
    const Desc part(dims, whole.get_data_type(), tag_of(whole));
    if (part.get_strides() != there.get_strides() ||
        part.get_padded_dims() != there.get_padded_dims()) {
      unsupported("oneDNN's layout changes where it is cut");
    }
    const auto size = static_cast<int64_t>(dnnl::memory::data_type_size(part.get_data_type()));
    return {part, (there.get_submemory_offset() - whole.get_submemory_offset()) * size};
  } catch (const dnnl::error& e) {
    unsupported("oneDNN cannot cut it: ", e.what());
  }
}

PrimitivePtr convolution(const Convolution& c) {
  using F = dnnl::convolution_forward;
  std::vector<int> args = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS};
  if (c.bias) args.push_back(DNNL_ARG_BIAS);
  args.push_back(DNNL_ARG_DST);
  Fixed fixed;
  const auto describe = [&] {
    const auto how = dnnl::prop_kind::forward_inference;
    const dnnl::primitive_attr a = attributes(c.finish, fixed, 4);
    const auto with = [&](const Desc& weights) {
      return c.bias ? F::primitive_desc(engine(), how, kDirect, c.src, weights, *c.bias, c.dst,
                                        c.strides, c.dilations, c.begin, c.end, a)
                    : F::primitive_desc(engine(), how, kDirect, c.src, weights, c.dst, c.strides,
                                        c.dilations, c.begin, c.end, a);
    };
    if (c.weights.get_data_type() != Type::s8) return with(c.weights);
    // Weights with sums for zero points or signs some kernels take from nobody but themselves.
    const Desc any = free_desc(c.weights);
    const F::primitive_desc d = with(any);
    return c.weights == any || c.weights == d.weights_desc() ? d : with(c.weights);
  };
  return make<F>("convolution", args, describe, fixed);
}

PrimitivePtr convolution_back_data(const Convolution& c) {
  using B = dnnl::convolution_backward_data;
  return make<B>("convolution", {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC}, [&] {
    return B::primitive_desc(engine(), kDirect, c.src, c.weights, c.dst, c.strides, c.dilations,
                             c.begin, c.end, forward_of(c), plain());
  });
}

PrimitivePtr convolution_back_weights(const Convolution& c) {
  using B = dnnl::convolution_backward_weights;
  return make<B>("convolution", {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}, [&] {
    return B::primitive_desc(engine(), kDirect, c.src, c.weights, c.dst, c.strides, c.dilations,
                             c.begin, c.end, forward_of(c), plain());
  });
}

PrimitivePtr pooling(const PoolWindow& w, const Desc& x, const Desc& y) {
  using F = dnnl::pooling_forward;
  using Kind = PoolWindow::Kind;
  const auto kind = w.kind == Kind::kMax       ? dnnl::algorithm::pooling_max
                    : w.kind == Kind::kAverage ? dnnl::algorithm::pooling_avg_exclude_padding
                                               : dnnl::algorithm::pooling_avg_include_padding;
  return make<F>("pooling", {DNNL_ARG_SRC, DNNL_ARG_DST}, [&] {
    const Dims strides{w.rows.stride, w.columns.stride}, dilations{0, 0};
    return F::primitive_desc(engine(), dnnl::prop_kind::forward_inference, kind, x, y, strides,
                             {w.rows.kernel, w.columns.kernel}, dilations,
                             {w.rows.begin, w.columns.begin}, {w.rows.end(), w.columns.end()},
                             plain());
  });
}

PrimitivePtr elementwise(const Activation& a, const Desc& x) {
  using F = dnnl::eltwise_forward;
  return make<F>("elementwise", {DNNL_ARG_SRC, DNNL_ARG_DST}, [&] {
    const Activation act = with_slope(a);
    return F::primitive_desc(engine(), dnnl::prop_kind::forward_inference, act.kind, x, x,
                             act.alpha, act.beta, plain());
  });
}

PrimitivePtr relu_back(const Desc& x) {
  using F = dnnl::eltwise_forward;
  using B = dnnl::eltwise_backward;
  constexpr auto kKind = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
  return make<B>("Relu backward", {DNNL_ARG_DIFF_DST, DNNL_ARG_DST, DNNL_ARG_DIFF_SRC}, [&] {
    const F::primitive_desc hint(engine(), dnnl::prop_kind::forward_training, kKind, x, x);
    return B::primitive_desc(engine(), kKind, x, x, x, hint, plain());
  });
}

PrimitivePtr binary(dnnl::algorithm kind, const Desc& x, const Desc& y) {
  using F = dnnl::binary;
  return make<F>("binary", {DNNL_ARG_SRC_0, DNNL_ARG_SRC_1, DNNL_ARG_DST},
                 [&] { return F::primitive_desc(engine(), kind, x, y, x, plain()); });
}

PrimitivePtr matmul(const Desc& a, const Desc& b, const std::optional<Desc>& bias, const Desc& y,
                    const Finish& finish) {
  using F = dnnl::matmul;
  std::vector<int> args = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS};
  if (bias) args.push_back(DNNL_ARG_BIAS);
  args.push_back(DNNL_ARG_DST);
  Fixed fixed;
  const auto describe = [&] {
    const dnnl::primitive_attr how = attributes(finish, fixed, y.get_ndims());
    return bias ? F::primitive_desc(engine(), a, b, *bias, y, how)
                : F::primitive_desc(engine(), a, b, y, how);
  };
  return make<F>("matmul", args, describe, fixed);
}

PrimitivePtr softmax(const Desc& x) {
  using F = dnnl::softmax_forward;
  return make<F>("softmax", {DNNL_ARG_SRC, DNNL_ARG_DST}, [&] {
    return F::primitive_desc(engine(), dnnl::prop_kind::forward_inference,
                             dnnl::algorithm::softmax_accurate, x, x, x.get_ndims() - 1, plain());
  });
}

PrimitivePtr layer_norm(const Desc& x, float epsilon, bool shift) {
  using F = dnnl::layer_normalization_forward;
  std::vector<int> args = {DNNL_ARG_SRC, DNNL_ARG_SCALE};
  if (shift) args.push_back(DNNL_ARG_SHIFT);
  args.push_back(DNNL_ARG_DST);
  return make<F>("layer normalization", args, [&] {
    auto flags = dnnl::normalization_flags::use_scale;
    if (shift) flags = flags | dnnl::normalization_flags::use_shift;
    return F::primitive_desc(engine(), dnnl::prop_kind::forward_inference, x, x, epsilon, flags,
                             plain());
  });
}

// One scale: reorders have it, and no product.
PrimitivePtr reorder(const Desc& from, const Desc& to, const Finish& f) {
  using F = dnnl::reorder;
  Fixed fixed;
  const auto describe = [&] {
    dnnl::primitive_attr a = plain();
    // By way of f32 where nothing changes, not all that is no number comes through: bytes do.
    if (from == to && f.scales.empty()) {
      const Desc bytes({static_cast<int64_t>(from.get_size())}, Type::u8, Tag::a);
      return F::primitive_desc(engine(), bytes, engine(), bytes, a);
    }
    set_zero_point(a, fixed, DNNL_ARG_FROM, f.src_zero);
    set_zero_point(a, fixed, DNNL_ARG_TO, f.dst_zero);
    if (!f.scales.empty()) {
      a.set_scales_mask(DNNL_ARG_FROM, 0);
      fixed.emplace_back(DNNL_ARG_ATTR_SCALES | DNNL_ARG_FROM,
                         memory_of({{1}, Type::f32, Tag::a}, f.scales));
    }
    return F::primitive_desc(engine(), from, engine(), to, a);
  };
  return make<F>("reorder", {DNNL_ARG_FROM, DNNL_ARG_TO}, describe, fixed);
}

}  // namespace ndtrain::onednn
