// One optimizer step of one parameter, element by element; see the ops for the formulas. The
// hyper-parameters are an input, f32.
#include <cmath>

#include "backends/cpu/kernels/elementwise.h"

namespace ndtrain::cpu {
namespace {

template <typename T>
std::unique_ptr<Kernel> sgd(const Node& node) {
  using W = wide_t<T>;
  const bool nesterov = node.i("nesterov") != 0;
  auto k =
      kernel([n = count(node.out()), nesterov](const void* const* in, void* const* out, void*) {
        const float* h = as<float>(in[3]);
        const W lr = static_cast<W>(h[0]), momentum = static_cast<W>(h[1]),
                decay = static_cast<W>(h[2]), share = static_cast<W>(h[3]);
        const bool whole = share == W(1);  // then nothing is rounded on its account
        const T *w = as<T>(in[0]), *g = as<T>(in[1]), *m = as<T>(in[2]);
        T *w_new = as<T>(out[0]), *m_new = as<T>(out[1]);
        parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
          for (int64_t i = begin; i < end; ++i) {
            const W gradient = widen(g[i]) + decay * widen(w[i]);
            const W velocity = momentum * widen(m[i]) + (whole ? gradient : share * gradient);
            const W step = nesterov ? gradient + momentum * velocity : velocity;
            w_new[i] = static_cast<T>(widen(w[i]) - lr * step);
            m_new[i] = static_cast<T>(velocity);
          }
        });
      });
  k->in_place_inputs = 0b111;
  return k;
}

// `kLargest`: with the largest second moment so far.
template <typename T, bool kLargest>
std::unique_ptr<Kernel> adam(const Node& node) {
  using W = wide_t<T>;
  const bool decoupled = node.i("decoupled") != 0;
  auto k =
      kernel([n = count(node.out()), decoupled](const void* const* in, void* const* out, void*) {
        W h[7];
        for (int i = 0; i < 7; ++i) h[i] = static_cast<W>(as<float>(in[kLargest ? 5 : 4])[i]);
        const W beta1 = h[1], beta2 = h[2], eps = h[3], rate = h[0] / h[5], correction = h[6];
        const W shrink = decoupled ? 1 - h[0] * h[4] : W(1), decay = decoupled ? W(0) : h[4];
        const T *w = as<T>(in[0]), *g = as<T>(in[1]), *m = as<T>(in[2]), *v = as<T>(in[3]);
        const T* largest = kLargest ? as<T>(in[4]) : nullptr;
        T *w_new = as<T>(out[0]), *m_new = as<T>(out[1]), *v_new = as<T>(out[2]);
        T* largest_new = kLargest ? as<T>(out[3]) : nullptr;
        parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
          for (int64_t i = begin; i < end; ++i) {
            const W weight = widen(w[i]), gradient = widen(g[i]) + decay * weight;
            const W first = beta1 * widen(m[i]) + (1 - beta1) * gradient;
            const W second = beta2 * widen(v[i]) + (1 - beta2) * gradient * gradient;
            W divisor = second;
            if constexpr (kLargest) {
              const W before = widen(largest[i]);
              divisor = before > second ? before : second;
              largest_new[i] = static_cast<T>(divisor);
            }
            const W step = rate * first / (std::sqrt(divisor / correction) + eps);
            w_new[i] = static_cast<T>(weight * shrink - step);
            m_new[i] = static_cast<T>(first);
            v_new[i] = static_cast<T>(second);
          }
        });
      });
  k->in_place_inputs = kLargest ? 0b11111 : 0b1111;
  return k;
}

template <typename T, bool kCentred>
std::unique_ptr<Kernel> rms_prop(const Node& node) {
  using W = wide_t<T>;
  auto k = kernel([n = count(node.out())](const void* const* in, void* const* out, void*) {
    W h[5];
    for (int i = 0; i < 5; ++i) h[i] = static_cast<W>(as<float>(in[kCentred ? 5 : 4])[i]);
    const W lr = h[0], alpha = h[1], eps = h[2], decay = h[3], momentum = h[4];
    const T *w = as<T>(in[0]), *g = as<T>(in[1]), *m = as<T>(in[2]), *v = as<T>(in[3]);
    const T* mean = kCentred ? as<T>(in[4]) : nullptr;
    T *w_new = as<T>(out[0]), *m_new = as<T>(out[1]), *v_new = as<T>(out[2]);
    T* mean_new = kCentred ? as<T>(out[3]) : nullptr;
    parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) {
        const W weight = widen(w[i]), gradient = widen(g[i]) + decay * weight;
        const W square = alpha * widen(v[i]) + (1 - alpha) * gradient * gradient;
        W variance = square;
        if constexpr (kCentred) {
          const W average = alpha * widen(mean[i]) + (1 - alpha) * gradient;
          const W rest = square - average * average;
          variance = rest > 0 ? rest : W(0);
          mean_new[i] = static_cast<T>(average);
        }
        const W velocity = momentum * widen(m[i]) + gradient / (std::sqrt(variance) + eps);
        w_new[i] = static_cast<T>(weight - lr * velocity);
        m_new[i] = static_cast<T>(velocity);
        v_new[i] = static_cast<T>(square);
      }
    });
  });
  k->in_place_inputs = kCentred ? 0b11111 : 0b1111;
  return k;
}

constexpr int kWithFifthState = 6;  // inputs: five states and the hyper-parameters

std::unique_ptr<Kernel> sgd_kernel(const Node& node) {
  return for_float(node.in(0).dtype, node.op(), [&]<typename T>() { return sgd<T>(node); });
}

std::unique_ptr<Kernel> adam_kernel(const Node& node) {
  return for_float(node.in(0).dtype, node.op(), [&]<typename T>() {
    return node.inputs() == kWithFifthState ? adam<T, true>(node) : adam<T, false>(node);
  });
}

std::unique_ptr<Kernel> rms_prop_kernel(const Node& node) {
  return for_float(node.in(0).dtype, node.op(), [&]<typename T>() {
    return node.inputs() == kWithFifthState ? rms_prop<T, true>(node) : rms_prop<T, false>(node);
  });
}

const Registered registered{
    {"SgdStep", sgd_kernel},
    {"AdamStep", adam_kernel},
    {"RmsPropStep", rms_prop_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
