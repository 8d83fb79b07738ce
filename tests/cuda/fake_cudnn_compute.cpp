#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/cuda/fake_cudnn_graph.h"

namespace ndtrain::fake {
namespace {

using Kind = DnnOperation::Kind;
using Values = std::vector<double>;  // row-major, whatever the tensor's strides

template <typename F>
void for_each_offset(const DnnTensor& t, const F& f) {
  const int64_t n = t.count();
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, at = 0;
    for (size_t d = t.dims.size(); d-- > 0;) {
      at += rest % t.dims[d] * t.strides[d];
      rest /= t.dims[d];
    }
    f(i, at);
  }
}

double load(cudnnDataType_t type, const void* from, int64_t i) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return static_cast<const double*>(from)[i];
    case CUDNN_DATA_HALF:
      return __half2float(static_cast<const __half*>(from)[i]);
    case CUDNN_DATA_BFLOAT16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(from)[i]);
    case CUDNN_DATA_INT8:
      return static_cast<const int8_t*>(from)[i];
    case CUDNN_DATA_INT32:
      return static_cast<const int32_t*>(from)[i];
    default:
      return static_cast<const float*>(from)[i];
  }
}

void store(cudnnDataType_t type, void* to, int64_t i, double value) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      static_cast<double*>(to)[i] = value;
      break;
    case CUDNN_DATA_HALF:
      static_cast<__half*>(to)[i] = __float2half(static_cast<float>(value));
      break;
    case CUDNN_DATA_BFLOAT16:
      static_cast<__nv_bfloat16*>(to)[i] = __float2bfloat16(static_cast<float>(value));
      break;
    case CUDNN_DATA_INT8:
      static_cast<int8_t*>(to)[i] = static_cast<int8_t>(std::clamp(value, -128.0, 127.0));
      break;
    case CUDNN_DATA_INT32:
      static_cast<int32_t*>(to)[i] = static_cast<int32_t>(value);
      break;
    default:
      static_cast<float*>(to)[i] = static_cast<float>(value);
  }
}

double rounded(cudnnDataType_t type, double value) {
  double buffer;
  store(type, &buffer, 0, value);
  return load(type, &buffer, 0);
}

double as_tf32(double value) {
  auto f = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  bits = (bits + 0x1000) & ~0x1FFFU;  // ten bits of mantissa
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

// Calls f(y, x, w), flat and row-major, for every product.
template <typename F>
void for_each_product(const DnnDescriptor& how, const std::vector<int64_t>& x,
                      const std::vector<int64_t>& w, const std::vector<int64_t>& y, const F& f) {
  const auto stride = how.list<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  const auto dilation = how.list<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  const auto begin = how.list<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  const size_t rank = x.size();
  int64_t outputs = 1, taps = 1;
  for (const int64_t d : y) outputs *= d;
  for (size_t d = 2; d < rank; ++d) taps *= w[d];
  const int64_t groups = x[1] / w[1], each = w[0] / groups;
  std::vector<int64_t> o(rank), k(rank);
  for (int64_t i = 0; i < outputs; ++i) {
    int64_t rest = i;
    for (size_t d = rank; d-- > 0; rest /= y[d]) o[d] = rest % y[d];
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t from = tap, plane = 0, in = 0, size = 1, inside = 1;
      for (size_t d = rank; d-- > 2; from /= w[d]) {
        k[d] = from % w[d];
        const int64_t at = o[d] * stride[d - 2] + k[d] * dilation[d - 2] - begin[d - 2];
        if (at < 0 || at >= x[d]) inside = 0;
        in += at * size;
        size *= x[d];
      }
      plane = size;
      for (int64_t c = 0; inside && c < w[1]; ++c) {
        const int64_t channel = o[1] / each * w[1] + c;
        f(i, (o[0] * x[1] + channel) * plane + in, (o[1] * w[1] + c) * taps + tap);
      }
    }
  }
}

Values convolve(const DnnOperation& op, const Values& a, const Values& b) {
  Values out(static_cast<size_t>(op.out.count()), 0.0);
  const DnnDescriptor& how = *op.settings;
  const auto at = [](const Values& v, int64_t i) { return v[static_cast<size_t>(i)]; };
  const auto to = [&](int64_t i) -> double& { return out[static_cast<size_t>(i)]; };
  if (op.kind == Kind::kForward) {
    for_each_product(how, op.in[0].dims, op.in[1].dims, op.out.dims,
                     [&](int64_t y, int64_t x, int64_t w) { to(y) += at(a, x) * at(b, w); });
  } else if (op.kind == Kind::kInput) {
    for_each_product(how, op.out.dims, op.in[0].dims, op.in[1].dims,
                     [&](int64_t y, int64_t x, int64_t w) { to(x) += at(a, w) * at(b, y); });
  } else {
    for_each_product(how, op.in[0].dims, op.out.dims, op.in[1].dims,
                     [&](int64_t y, int64_t x, int64_t w) { to(w) += at(a, x) * at(b, y); });
  }
  return out;
}

Values multiply(const DnnOperation& op, const Values& a, const Values& b) {
  const size_t rank = op.out.dims.size();
  const int64_t m = op.out.dims[rank - 2], n = op.out.dims[rank - 1], k = op.in[0].dims[rank - 1];
  Values c(static_cast<size_t>(op.out.count()), 0.0);
  for (int64_t i = 0; i < op.out.count(); ++i) {
    const int64_t batch = i / (m * n), row = i / n % m, column = i % n;
    for (int64_t j = 0; j < k; ++j) {
      c[static_cast<size_t>(i)] += a[static_cast<size_t>((batch * m + row) * k + j)] *
                                   b[static_cast<size_t>((batch * k + j) * n + column)];
    }
  }
  return c;
}

// The flat index in `from` of element i of `to`, along which dims of 1 repeat.
int64_t broadcast(const DnnTensor& from, const DnnTensor& to, int64_t i) {
  int64_t at = 0, size = 1;
  for (size_t d = to.dims.size(); d-- > 0; i /= to.dims[d]) {
    if (from.dims[d] != 1) at += i % to.dims[d] * size;
    size *= from.dims[d];
  }
  return at;
}

double clipped(const DnnDescriptor& how, double x) {
  const auto clip = [&](int name, double none) {
    return how.has(name) ? how.value<double>(name) : none;
  };
  return std::min(std::max(x, clip(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, 0)),
                  clip(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, INFINITY));
}

double apply(const DnnDescriptor& how, double x, double b) {
  switch (how.value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE)) {
    case CUDNN_POINTWISE_ADD:
      return x + b;
    case CUDNN_POINTWISE_SUB:
      return x - b;
    case CUDNN_POINTWISE_MUL:
      return x * b;
    case CUDNN_POINTWISE_DIV:
      return x / b;
    case CUDNN_POINTWISE_EXP:
      return std::exp(x);
    case CUDNN_POINTWISE_LOG:
      return std::log(x);
    case CUDNN_POINTWISE_RELU_FWD:
      return clipped(how, x);
    default:
      return NAN;  // not taught: shows in any comparison
  }
}

Values pointwise(const DnnOperation& op, const Values& x, const Values* b) {
  Values y(static_cast<size_t>(op.out.count()));
  for (size_t i = 0; i < y.size(); ++i) {
    const auto at = [&](size_t port) {
      return static_cast<size_t>(broadcast(op.in[port], op.out, static_cast<int64_t>(i)));
    };
    y[i] = apply(*op.settings, x[at(0)], b ? (*b)[at(1)] : 0);
  }
  return y;
}

Values reduce(const DnnOperation& op, const Values& x) {
  const bool adds =
      op.settings->value<int>(CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_ADD;
  Values y(static_cast<size_t>(op.out.count()), adds ? 0.0 : -INFINITY);
  for (size_t i = 0; i < x.size(); ++i) {
    double& to = y[static_cast<size_t>(broadcast(op.out, op.in[0], static_cast<int64_t>(i)))];
    to = adds ? to + x[i] : std::max(to, x[i]);
  }
  return y;
}

}  // namespace

void compute(const DnnGraph& g, const std::map<int64_t, void*>& at,
             const std::map<int64_t, double>& values, bool tf32) {
  std::map<int64_t, Values> made;
  const auto value_of = [&](const DnnTensor& t) -> const Values& {
    const auto found = made.find(t.uid);
    if (found != made.end()) return found->second;
    Values& v = made[t.uid];
    if (t.by_value) return v = {values.at(t.uid)};
    v.resize(static_cast<size_t>(t.count()));
    for_each_offset(t, [&](int64_t i, int64_t offset) {
      v[static_cast<size_t>(i)] = load(t.type, at.at(t.uid), offset);
    });
    return v;
  };
  for (const DnnOperation& op : g.operations) {
    Values a = value_of(op.in[0]), b = op.in.size() > 1 ? value_of(op.in[1]) : Values{};
    if (tf32 && op.kind <= Kind::kWeight && op.in[0].type == CUDNN_DATA_FLOAT) {
      for (Values* v : {&a, &b}) std::ranges::transform(*v, v->begin(), as_tf32);
    }
    Values y = op.kind <= Kind::kWeight      ? convolve(op, a, b)
               : op.kind == Kind::kMatmul    ? multiply(op, a, b)
               : op.kind == Kind::kReduction ? reduce(op, a)
                                             : pointwise(op, a, b.empty() ? nullptr : &b);
    for (double& v : y) v = rounded(op.out.type, v);
    if (!op.out.is_virtual) {
      for_each_offset(op.out, [&](int64_t i, int64_t offset) {
        store(op.out.type, at.at(op.out.uid), offset, y[static_cast<size_t>(i)]);
      });
    }
    made[op.out.uid] = std::move(y);
  }
}

}  // namespace ndtrain::fake
