// BatchNormalization per channel of [N, C, plane], its gradient, and InstanceNormalization, which
// is the same per plane. Channels (planes) are independent: one task each.
#include <cmath>

#include "backends/cpu/kernels/lanes.h"
#include "backends/cpu/kernels/numbers.h"

namespace ndtrain::cpu {
namespace {

struct Layout {
  int64_t n, channels, plane;

  explicit Layout(const ndt_tensor_type& x)
      : n(x.dims[0]), channels(x.dims[1]), plane(count(x, 2, x.rank)) {
    if (x.rank < 2) invalid("needs [N, C, ...], not ", describe(x));
  }
  int64_t start(int64_t i, int64_t channel) const { return (i * channels + channel) * plane; }
  int64_t per_channel() const { return n * plane; }
};

// Sum of term(row start, i) over the planes of one channel.
template <typename W, typename Term>
W channel_sum(const Layout& at, int64_t channel, Term term) {
  W sum{};
  for (int64_t i = 0; i < at.n; ++i) {
    const int64_t start = at.start(i, channel);
    sum += sum_row<W>(at.plane, [=](int64_t k) { return term(start + k); });
  }
  return sum;
}

template <typename W>
struct Moments {
  W mean, var;
};

template <typename T, typename W>
Moments<W> moments(const Layout& at, const T* x, int64_t channel) {
  const W n = static_cast<W>(at.per_channel());
  const W mean = channel_sum<W>(at, channel, [=](int64_t i) { return widen(x[i]); }) / n;
  const W var = channel_sum<W>(at, channel, [=](int64_t i) {
    const W d = widen(x[i]) - mean;
    return d * d;
  });
  return {mean, var / n};
}

// y = x * scale + shift over the planes of one channel.
template <typename T, typename W>
void scale_and_shift(const Layout& at, int64_t channel, const T* x, W mean, W scale, W bias, T* y) {
  for (int64_t i = 0; i < at.n; ++i) {
    const int64_t start = at.start(i, channel);
#pragma GCC ivdep
    for (int64_t k = start; k < start + at.plane; ++k) {
      y[k] = static_cast<T>((widen(x[k]) - mean) * scale + bias);
    }
  }
}

int64_t grain_of(const Layout& at) {
  return std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, at.per_channel()));
}

template <typename T>
class BatchNorm final : public Kernel {
  using W = wide_t<T>;

 public:
  explicit BatchNorm(const Node& node)
      : at_(node.in(0)),
        affine_(node.in(1).dtype),
        statistics_(node.in(3).dtype),
        epsilon_(static_cast<W>(node.f("epsilon"))),
        momentum_(static_cast<W>(node.f("momentum"))),
        training_(node.i("training_mode") != 0),
        running_{node.has_output(1), node.has_output(2)} {
    for (int i = 1; i < 5; ++i) {
      if (count(node.in(i)) != at_.channels) invalid("input ", i, " is not one value per channel");
    }
    in_place_inputs = 1;
  }

  void run(const void* const* in, void* const* out, void*) const override {
    const T* x = as<T>(in[0]);
    T* y = as<T>(out[0]);
    if (!training_) {
      // By plane: a batch of one still has something to share.
      return parallel_for(at_.n * at_.channels, plane_grain(), [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) {
          const int64_t c = p % at_.channels, start = p * at_.plane;
          const W mean = number<W>(in[3], statistics_, c);
          const W scale = scale_of(in, c, number<W>(in[4], statistics_, c));
          const W bias = number<W>(in[2], affine_, c);
#pragma GCC ivdep
          for (int64_t k = start; k < start + at_.plane; ++k) {
            y[k] = static_cast<T>((widen(x[k]) - mean) * scale + bias);
          }
        }
      });
    }
    parallel_for(at_.channels, grain_of(at_), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        const Moments<W> m = moments<T, W>(at_, x, c);
        const W bias = number<W>(in[2], affine_, c);
        scale_and_shift(at_, c, x, m.mean, scale_of(in, c, m.var), bias, y);
        for (const int k : {0, 1}) {
          if (!running_[k]) continue;
          const W old = number<W>(in[3 + k], statistics_, c), batch = k == 0 ? m.mean : m.var;
          set_number(out[1 + k], statistics_, c, momentum_ * old + (1 - momentum_) * batch);
        }
      }
    });
  }

 private:
  W scale_of(const void* const* in, int64_t c, W var) const {
    return number<W>(in[1], affine_, c) / std::sqrt(var + epsilon_);
  }
  int64_t plane_grain() const {
    return std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, at_.plane));
  }

  Layout at_;
  ndt_dtype affine_, statistics_;
  W epsilon_, momentum_;
  bool training_;
  bool running_[2];
};

// With r = 1 / sqrt(var + epsilon), z = (x - mean) * r: dbias = sum dy, dscale = sum dy * z,
// dx = scale * r * (dy - dbias / n - z * dscale / n).
template <typename T>
std::unique_ptr<Kernel> batch_norm_grad(const Node& node) {
  using W = wide_t<T>;
  const Layout at(node.in(1));
  const ndt_dtype affine = node.in(2).dtype;
  const W epsilon = static_cast<W>(node.f("epsilon"));
  return kernel([at, affine, epsilon](const void* const* in, void* const* out, void*) {
    const T *dy = as<T>(in[0]), *x = as<T>(in[1]);
    T* dx = as<T>(out[0]);
    parallel_for(at.channels, grain_of(at), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        const auto [mean, var] = moments<T, W>(at, x, c);
        const W r = 1 / std::sqrt(var + epsilon), n = static_cast<W>(at.per_channel());
        const W dbias = channel_sum<W>(at, c, [=](int64_t i) { return widen(dy[i]); });
        const W m = mean;
        const W dscale =
            r * channel_sum<W>(at, c, [=](int64_t i) { return widen(dy[i]) * (widen(x[i]) - m); });
        const W k = number<W>(in[2], affine, c) * r, slope = r * dscale / n, shift = dbias / n;
        for (int64_t i = 0; i < at.n; ++i) {
          const int64_t start = at.start(i, c);
#pragma GCC ivdep
          for (int64_t j = start; j < start + at.plane; ++j) {
            dx[j] = static_cast<T>(k * (widen(dy[j]) - shift - (widen(x[j]) - m) * slope));
          }
        }
        set_number(out[1], affine, c, dscale);
        set_number(out[2], affine, c, dbias);
      }
    });
  });
}

template <typename T>
std::unique_ptr<Kernel> instance_norm(const Node& node) {
  using W = wide_t<T>;
  Layout at(node.in(0));
  const int64_t channels = at.channels;
  at.channels *= at.n;  // every plane is a channel
  at.n = 1;
  const W epsilon = static_cast<W>(node.f("epsilon"));
  auto k = kernel([at, channels, epsilon](const void* const* in, void* const* out, void*) {
    const T *x = as<T>(in[0]), *scale = as<T>(in[1]), *bias = as<T>(in[2]);
    T* y = as<T>(out[0]);
    parallel_for(at.channels, grain_of(at), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const Moments<W> m = moments<T, W>(at, x, p);
        const W factor = widen(scale[p % channels]) / std::sqrt(m.var + epsilon);
        scale_and_shift(at, p, x, m.mean, factor, widen(bias[p % channels]), y);
      }
    });
  });
  k->in_place_inputs = 1;
  return k;
}

std::unique_ptr<Kernel> batch_norm_kernel(const Node& node) {
  return for_float(node.in(0).dtype, node.op(), [&]<typename T>() -> std::unique_ptr<Kernel> {
    return std::make_unique<BatchNorm<T>>(node);
  });
}

std::unique_ptr<Kernel> batch_norm_grad_kernel(const Node& node) {
  return for_float(node.in(1).dtype, node.op(),
                   [&]<typename T>() { return batch_norm_grad<T>(node); });
}

std::unique_ptr<Kernel> instance_norm_kernel(const Node& node) {
  return for_float(node.in(0).dtype, node.op(),
                   [&]<typename T>() { return instance_norm<T>(node); });
}

const Registered registered{
    {"BatchNormalization", batch_norm_kernel},
    {"BatchNormalizationGrad", batch_norm_grad_kernel},
    {"InstanceNormalization", instance_norm_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
