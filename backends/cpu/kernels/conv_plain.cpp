#include "backends/cpu/kernels/conv_plain.h"

namespace ndtrain::cpu {
namespace {

// Where output `o` and tap `t` meet the input, flat; -1 in the padding.
int64_t input_at(const ConvGeometry& g, int64_t o, int64_t t) {
  int64_t at[3];
  for (int d = 3; d-- > 0; o /= g.out[d], t /= g.kernel[d]) {
    at[d] = o % g.out[d] * g.stride[d] + t % g.kernel[d] * g.dilation[d] - g.begin[d];
    if (at[d] < 0 || at[d] >= g.in[d]) return -1;
  }
  return (at[0] * g.in[1] + at[1]) * g.in[2] + at[2];
}

// Where input `i` and tap `t` meet the output, flat; -1 if they do not.
int64_t output_at(const ConvGeometry& g, int64_t i, int64_t t) {
  int64_t at[3];
  for (int d = 3; d-- > 0; i /= g.in[d], t /= g.kernel[d]) {
    const int64_t p = i % g.in[d] + g.begin[d] - t % g.kernel[d] * g.dilation[d];
    if (p < 0 || p % g.stride[d] || p / g.stride[d] >= g.out[d]) return -1;
    at[d] = p / g.stride[d];
  }
  return (at[0] * g.out[1] + at[1]) * g.out[2] + at[2];
}

}  // namespace

template <typename T>
void conv_plain(const ConvGeometry& g, const T* x, const T* w, const T* bias, const T* residual,
                const Activation& activation, T* y) {
  using Sum = wide_t<T>;
  const int64_t plane = g.out_plane(), taps = g.taps(), in = g.in_plane();
  parallel_for(g.images * g.all_out(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t m = p % g.all_out(), n = p / g.all_out();
      const T* from = x + (n * g.all_in() + m / g.out_channels * g.in_channels) * in;
      const T* weights = w + m * g.terms();
      for (int64_t o = 0; o < plane; ++o) {
        Sum sum = bias ? static_cast<Sum>(bias[m]) : Sum{0};
        for (int64_t t = 0; t < taps; ++t) {
          const int64_t i = input_at(g, o, t);
          for (int64_t c = 0; i >= 0 && c < g.in_channels; ++c) {
            sum += static_cast<Sum>(from[c * in + i]) * static_cast<Sum>(weights[c * taps + t]);
          }
        }
        if (residual) sum += static_cast<Sum>(residual[p * plane + o]);
        if (activation.clamp) {
          sum = sum < static_cast<Sum>(activation.low) ? static_cast<Sum>(activation.low) : sum;
          sum = sum > static_cast<Sum>(activation.high) ? static_cast<Sum>(activation.high) : sum;
        }
        y[p * plane + o] = static_cast<T>(sum);
      }
    }
  });
}

template <typename T>
void conv_plain_grad_input(const ConvGeometry& g, const T* dy, const T* w, T* dx) {
  using Sum = wide_t<T>;
  const int64_t in = g.in_plane(), out = g.out_plane(), taps = g.taps();
  parallel_for(g.images * g.all_in(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t n = p / g.all_in(), channel = p % g.all_in(), c = channel % g.in_channels;
      const int64_t m0 = channel / g.in_channels * g.out_channels;
      for (int64_t i = 0; i < in; ++i) {
        Sum sum{0};
        for (int64_t t = 0; t < taps; ++t) {
          const int64_t o = output_at(g, i, t);
          for (int64_t m = m0; o >= 0 && m < m0 + g.out_channels; ++m) {
            sum += static_cast<Sum>(dy[(n * g.all_out() + m) * out + o]) *
                   static_cast<Sum>(w[m * g.terms() + c * taps + t]);
          }
        }
        dx[p * in + i] = static_cast<T>(sum);
      }
    }
  });
}

template <typename T>
void conv_plain_grad_weight(const ConvGeometry& g, const T* x, const T* dy, T* dw) {
  using Sum = wide_t<T>;
  const int64_t in = g.in_plane(), out = g.out_plane(), taps = g.taps();
  parallel_for(g.all_out() * g.in_channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t m = p / g.in_channels;
      const int64_t channel = m / g.out_channels * g.in_channels + p % g.in_channels;
      for (int64_t t = 0; t < taps; ++t) {
        Sum sum{0};
        for (int64_t o = 0; o < out; ++o) {
          const int64_t i = input_at(g, o, t);
          for (int64_t n = 0; i >= 0 && n < g.images; ++n) {
            sum += static_cast<Sum>(x[(n * g.all_in() + channel) * in + i]) *
                   static_cast<Sum>(dy[(n * g.all_out() + m) * out + o]);
          }
        }
        dw[p * taps + t] = static_cast<T>(sum);
      }
    }
  });
}

#define NDT_CONV_PLAIN(T)                                                               \
  template void conv_plain(const ConvGeometry&, const T*, const T*, const T*, const T*, \
                           const Activation&, T*);                                      \
  template void conv_plain_grad_input(const ConvGeometry&, const T*, const T*, T*);     \
  template void conv_plain_grad_weight(const ConvGeometry&, const T*, const T*, T*);
NDT_CONV_PLAIN(float)
NDT_CONV_PLAIN(double)
#undef NDT_CONV_PLAIN

}  // namespace ndtrain::cpu
