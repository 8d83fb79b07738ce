// What version 2 of the library does its own way: dnnl_v3.cpp is its twin.
#include "backends/onednn/dnnl_make.h"

namespace ndtrain::onednn {
namespace {

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

// What the library wants to know of the way forward before it goes back. Gradients of weights may
// be wider than these.
dnnl::convolution_forward::primitive_desc forward_of(const Convolution& c) {
  using F = dnnl::convolution_forward;
  const Desc weights(c.weights.dims(), c.src.data_type(), dnnl::memory::format_tag::any);
  const F::desc d(dnnl::prop_kind::forward_training, kDirect, c.src, weights, c.dst, c.strides,
                  c.dilations, c.begin, c.end);
  return {d, engine()};
}

dnnl::primitive_attr attributes(const Finish& f) {
  dnnl::primitive_attr a;
  a.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (!f.scales.empty()) a.set_output_scales(f.scales.size() == 1 ? 0 : 1 << 1, f.scales);
  if (f.src_zero) a.set_zero_points(DNNL_ARG_SRC, 0, {f.src_zero});
  if (f.dst_zero) a.set_zero_points(DNNL_ARG_DST, 0, {f.dst_zero});
  dnnl::post_ops post;
  if (f.sum) post.append_sum(f.sum_scale, f.sum_zero, f.sum_type);
  if (f.activation) {
    post.append_eltwise(1.0F, f.activation->kind, f.activation->alpha, f.activation->beta);
  }
  if (f.factor != 1) {
    post.append_eltwise(1.0F, dnnl::algorithm::eltwise_linear, f.factor, 0.0F);
  }
  a.set_post_ops(post);
  return a;
}

}  // namespace

DescPart cut(const Desc& whole, const Dims& dims, const Dims& first) {
  try {
    Desc part = whole.submemory_desc(dims, first);
    const int64_t elements = part.data.offset0 - whole.data.offset0;
    part.data.offset0 = whole.data.offset0;
    return {part, elements * static_cast<int64_t>(dnnl::memory::data_type_size(part.data_type()))};
  } catch (const dnnl::error& e) {
    unsupported("oneDNN cannot cut it: ", e.what());
  }
}

PrimitivePtr convolution(const Convolution& c) {
  using F = dnnl::convolution_forward;
  std::vector<int> args = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS};
  if (c.bias) args.push_back(DNNL_ARG_BIAS);
  args.push_back(DNNL_ARG_DST);
  return make<F>("convolution", args, [&] {
    const auto how = dnnl::prop_kind::forward_inference;
    const F::desc d = c.bias ? F::desc(how, kDirect, c.src, c.weights, *c.bias, c.dst, c.strides,
                                       c.dilations, c.begin, c.end)
                             : F::desc(how, kDirect, c.src, c.weights, c.dst, c.strides,
                                       c.dilations, c.begin, c.end);
    return F::primitive_desc(d, attributes(c.finish), engine());
  });
}

PrimitivePtr convolution_back_data(const Convolution& c) {
  using B = dnnl::convolution_backward_data;
  return make<B>("convolution", {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC}, [&] {
    const B::desc d(kDirect, c.src, c.weights, c.dst, c.strides, c.dilations, c.begin, c.end);
    return B::primitive_desc(d, attributes({}), engine(), forward_of(c));
  });
}

PrimitivePtr convolution_back_weights(const Convolution& c) {
  using B = dnnl::convolution_backward_weights;
  return make<B>("convolution", {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}, [&] {
    const B::desc d(kDirect, c.src, c.weights, c.dst, c.strides, c.dilations, c.begin, c.end);
    return B::primitive_desc(d, attributes({}), engine(), forward_of(c));
  });
}

PrimitivePtr pooling(const PoolWindow& w, const Desc& x, const Desc& y) {
  using F = dnnl::pooling_forward;
  using Kind = PoolWindow::Kind;
  const auto kind = w.kind == Kind::kMax       ? dnnl::algorithm::pooling_max
                    : w.kind == Kind::kAverage ? dnnl::algorithm::pooling_avg_exclude_padding
                                               : dnnl::algorithm::pooling_avg_include_padding;
  return make<F>("pooling", {DNNL_ARG_SRC, DNNL_ARG_DST}, [&] {
    const F::desc d(dnnl::prop_kind::forward_inference, kind, x, y,
                    {w.rows.stride, w.columns.stride}, {w.rows.kernel, w.columns.kernel},
                    {w.rows.begin, w.columns.begin}, {w.rows.end(), w.columns.end()});
    return F::primitive_desc(d, attributes({}), engine());
  });
}

PrimitivePtr elementwise(const Activation& a, const Desc& x) {
  using F = dnnl::eltwise_forward;
  return make<F>("elementwise", {DNNL_ARG_SRC, DNNL_ARG_DST}, [&] {
    const F::desc d(dnnl::prop_kind::forward_inference, a.kind, x, a.alpha, a.beta);
    return F::primitive_desc(d, attributes({}), engine());
  });
}

PrimitivePtr relu_back(const Desc& x) {
  using F = dnnl::eltwise_forward;
  using B = dnnl::eltwise_backward;
  constexpr auto kKind = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
  return make<B>("Relu backward", {DNNL_ARG_DIFF_DST, DNNL_ARG_DST, DNNL_ARG_DIFF_SRC}, [&] {
    const F::primitive_desc hint(F::desc(dnnl::prop_kind::forward_training, kKind, x, 0.0F),
                                 engine());
    return B::primitive_desc(B::desc(kKind, x, x, 0.0F), attributes({}), engine(), hint);
  });
}

PrimitivePtr binary(dnnl::algorithm kind, const Desc& x, const Desc& y) {
  using F = dnnl::binary;
  return make<F>("binary", {DNNL_ARG_SRC_0, DNNL_ARG_SRC_1, DNNL_ARG_DST}, [&] {
    return F::primitive_desc(F::desc(kind, x, y, x), attributes({}), engine());
  });
}

PrimitivePtr matmul(const Desc& a, const Desc& b, const std::optional<Desc>& bias, const Desc& y,
                    const Finish& finish) {
  using F = dnnl::matmul;
  std::vector<int> args = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS};
  if (bias) args.push_back(DNNL_ARG_BIAS);
  args.push_back(DNNL_ARG_DST);
  return make<F>("matmul", args, [&] {
    const F::desc d = bias ? F::desc(a, b, *bias, y) : F::desc(a, b, y);
    return F::primitive_desc(d, attributes(finish), engine());
  });
}

PrimitivePtr softmax(const Desc& x) {
  using F = dnnl::softmax_forward;
  return make<F>("softmax", {DNNL_ARG_SRC, DNNL_ARG_DST}, [&] {
    const auto axis = static_cast<int>(x.dims().size()) - 1;
    return F::primitive_desc(F::desc(dnnl::prop_kind::forward_inference, x, axis), attributes({}),
                             engine());
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
    const F::desc d(dnnl::prop_kind::forward_inference, x, epsilon, flags);
    return F::primitive_desc(d, attributes({}), engine());
  });
}

PrimitivePtr reorder(const Desc& from, const Desc& to, const Finish& f) {
  using F = dnnl::reorder;
  return make<F>("reorder", {DNNL_ARG_FROM, DNNL_ARG_TO},
                 [&] { return F::primitive_desc(engine(), from, engine(), to, attributes(f)); });
}

}  // namespace ndtrain::onednn
