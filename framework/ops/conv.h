// The arithmetic of grouped convolution, shared by Conv, its gradients and the quantised forms.
#pragma once

#include <cmath>

#include "framework/ops/spatial.h"

namespace ndtrain {

struct ConvShape {
  Window window;
  int64_t n = 0, groups = 1;
  int64_t out_channels = 0, in_channels = 0;  // per group

  // Products per element of y, of dx and of dw.
  int64_t terms() const { return in_channels * window.taps(); }
  int64_t input_terms() const { return out_channels * window.taps(); }
  int64_t weight_terms() const { return n * window.out_count(); }
  Shape output() const { return shape_of_planes(n, groups * out_channels, window.out); }
};

// The attributes of Conv, and `more`.
std::vector<AttrSpec> conv_attrs(std::vector<AttrSpec> more = {});

// Throws Error unless input i is absent or has shape y.
void check_residual(const InferContext& c, size_t i, const Shape& y);

// For OpDef::complete where the weight is input `W`.
template <int W = 1>
void complete_conv(Attrs& a, std::span<const TensorType> in) {
  const Shape& w = in[W].shape;
  if (w.rank() < 3) throw Error("weight ", w, " has no spatial dims (expected [M, C/group, …])");
  complete_window(a, in[0].shape, Ints(w.dims().begin() + 2, w.dims().end()));
}

// From complete attributes. Throws Error when x [N, C, …], w [M, C/group, …] and the attributes do
// not fit one another.
ConvShape conv_shape(const Attrs& a, const Shape& x, const Shape& w);

// Throws Error unless input i is one value per output channel.
void check_conv_bias(const InferContext& c, size_t i, const Shape& y);

// Calls f(y, x, w), flat indices, for every product x * w that is part of y.
template <typename F>
void for_each_product(const ConvShape& s, const F& f) {
  const int64_t in = s.window.in_count(), out = s.window.out_count(), taps = s.window.taps();
  const int64_t m_all = s.groups * s.out_channels, c_all = s.groups * s.in_channels;
  for (int64_t n = 0; n < s.n; ++n) {
    for (int64_t m = 0; m < m_all; ++m) {
      const int64_t c0 = m / s.out_channels * s.in_channels;
      for (int64_t c = 0; c < s.in_channels; ++c) {
        const int64_t y = (n * m_all + m) * out, x = (n * c_all + c0 + c) * in;
        const int64_t w = (m * s.in_channels + c) * taps;
        for_each_tap(s.window, [&](int64_t o, int64_t k, int64_t i) { f(y + o, x + i, w + k); });
      }
    }
  }
}

}  // namespace ndtrain
