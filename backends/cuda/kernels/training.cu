#include "backends/cuda/kernels/grid.h"
#include "backends/cuda/kernels/training.h"

namespace ndtrain::cuda {
namespace {

template <typename T>
__global__ void sgd(int64_t n, bool nesterov, const T* w, const T* g, const T* m,
                    const float* hyper, T* w_new, T* m_new) {
  using W = Wide<T>;
  const W lr = static_cast<W>(hyper[0]), momentum = static_cast<W>(hyper[1]),
          decay = static_cast<W>(hyper[2]), share = static_cast<W>(hyper[3]);
  const bool whole = share == W(1);  // then nothing is rounded on its account
  for (int64_t i = first_index(); i < n; i += all_threads()) {
    const W weight = widen(w[i]), gradient = widen(g[i]) + decay * weight;
    const W velocity = momentum * widen(m[i]) + (whole ? gradient : share * gradient);
    const W step = nesterov ? gradient + momentum * velocity : velocity;
    w_new[i] = narrow<T>(weight - lr * step);
    m_new[i] = narrow<T>(velocity);
  }
}

// What a step reads and writes besides w and g; `fifth` null: the state is not there.
template <typename T>
struct MomentsFrom {
  const T *m, *v, *fifth;
};
template <typename T>
struct MomentsTo {
  T *m, *v, *fifth;
};

// The fifth state is the largest second moment so far.
template <typename T>
__global__ void adam(int64_t n, bool decoupled, const T* w, const T* g, MomentsFrom<T> from,
                     const float* hyper, T* w_new, MomentsTo<T> to) {
  using W = Wide<T>;
  W h[7];
  NDT_UNROLL
  for (int k = 0; k < 7; ++k) h[k] = static_cast<W>(hyper[k]);
  const W beta1 = h[1], beta2 = h[2], eps = h[3], rate = h[0] / h[5], correction = h[6];
  const W shrink = decoupled ? W(1) - h[0] * h[4] : W(1), decay = decoupled ? W(0) : h[4];
  for (int64_t i = first_index(); i < n; i += all_threads()) {
    const W weight = widen(w[i]), gradient = widen(g[i]) + decay * weight;
    const W first = beta1 * widen(from.m[i]) + (W(1) - beta1) * gradient;
    const W second = beta2 * widen(from.v[i]) + (W(1) - beta2) * gradient * gradient;
    W divisor = second;
    if (from.fifth) {
      const W before = widen(from.fifth[i]);
      divisor = before > second ? before : second;
      to.fifth[i] = narrow<T>(divisor);
    }
    const W step = rate * first / (std::sqrt(divisor / correction) + eps);
    w_new[i] = narrow<T>(weight * shrink - step);
    to.m[i] = narrow<T>(first);
    to.v[i] = narrow<T>(second);
  }
}

// The fifth state is the mean of the gradients.
template <typename T>
__global__ void rms_prop(int64_t n, const T* w, const T* g, MomentsFrom<T> from, const float* hyper,
                         T* w_new, MomentsTo<T> to) {
  using W = Wide<T>;
  const W lr = static_cast<W>(hyper[0]), alpha = static_cast<W>(hyper[1]),
          eps = static_cast<W>(hyper[2]), decay = static_cast<W>(hyper[3]),
          momentum = static_cast<W>(hyper[4]);
  for (int64_t i = first_index(); i < n; i += all_threads()) {
    const W weight = widen(w[i]), gradient = widen(g[i]) + decay * weight;
    const W square = alpha * widen(from.v[i]) + (W(1) - alpha) * gradient * gradient;
    W variance = square;
    if (from.fifth) {
      const W mean = alpha * widen(from.fifth[i]) + (W(1) - alpha) * gradient;
      const W rest = square - mean * mean;
      variance = rest > W(0) ? rest : W(0);
      to.fifth[i] = narrow<T>(mean);
    }
    const W velocity = momentum * widen(from.m[i]) + gradient / (std::sqrt(variance) + eps);
    w_new[i] = narrow<T>(weight - lr * velocity);
    to.m[i] = narrow<T>(velocity);
    to.v[i] = narrow<T>(square);
  }
}

NDT_DEVICE uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
NDT_DEVICE uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

// Philox4x32-10 (Salmon et al., SC'11): 53 bits of a number in [0, 1).
NDT_DEVICE uint64_t uniform_bits(uint64_t seed, uint64_t of_stream, uint64_t index) {
  uint32_t c0 = low(index), c1 = high(index), c2 = low(of_stream), c3 = high(of_stream);
  uint32_t k0 = low(seed), k1 = high(seed);
  NDT_UNROLL
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = high(p1) ^ c1 ^ k0;
    c1 = low(p1);
    c2 = high(p0) ^ c3 ^ k1;
    c3 = low(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return (uint64_t{c1} << 32 | c0) >> 11;
}

// `below` is the first of the 2^53 numbers that is not less than the ratio.
__global__ void masks(int64_t n, uint64_t below, float kept, uint64_t of_stream,
                      const uint64_t* seeds, float* mask) {
  const uint64_t seed = seeds[0], stream = of_stream ^ (seeds[1] << 20);
  for (int64_t i = first_index(); i < n; i += all_threads()) {
    mask[i] = uniform_bits(seed, stream, static_cast<uint64_t>(i)) < below ? 0.0f : kept;
  }
}

template <typename T>
MomentsFrom<T> moments_in(const void* const* in, int states) {
  const auto at = [&](int k) { return k < states ? static_cast<const T*>(in[k]) : nullptr; };
  return {at(2), at(3), at(4)};
}

template <typename T>
MomentsTo<T> moments_out(void* const* out, int states) {
  const auto at = [&](int k) { return k < states - 1 ? static_cast<T*>(out[k]) : nullptr; };
  return {at(1), at(2), at(3)};
}

}  // namespace

void sgd_step(ndt_dtype t, int64_t n, bool nesterov, const void* const* in, void* const* out,
              cudaStream_t stream) {
  if (n == 0) return;
  for_float(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    const auto from = [&](int k) { return static_cast<const T*>(in[k]); };
    launch(sgd<T>, extent_for(n), stream, n, nesterov, from(0), from(1), from(2),
           static_cast<const float*>(in[3]), static_cast<T*>(out[0]), static_cast<T*>(out[1]));
  });
}

void adam_step(ndt_dtype t, int64_t n, int states, bool decoupled, const void* const* in,
               void* const* out, cudaStream_t stream) {
  if (n == 0) return;
  for_float(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    launch(adam<T>, extent_for(n), stream, n, decoupled, static_cast<const T*>(in[0]),
           static_cast<const T*>(in[1]), moments_in<T>(in, states),
           static_cast<const float*>(in[states]), static_cast<T*>(out[0]),
           moments_out<T>(out, states));
  });
}

void rms_prop_step(ndt_dtype t, int64_t n, int states, const void* const* in, void* const* out,
                   cudaStream_t stream) {
  if (n == 0) return;
  for_float(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    launch(rms_prop<T>, extent_for(n), stream, n, static_cast<const T*>(in[0]),
           static_cast<const T*>(in[1]), moments_in<T>(in, states),
           static_cast<const float*>(in[states]), static_cast<T*>(out[0]),
           moments_out<T>(out, states));
  });
}

void dropout_mask(int64_t n, double ratio, uint64_t of_stream, const uint64_t* seeds, float* mask,
                  cudaStream_t stream) {
  if (n == 0) return;
  const auto below = static_cast<uint64_t>(std::ceil(std::ldexp(ratio, 53)));
  launch(masks, extent_for(n), stream, n, below, static_cast<float>(1 / (1 - ratio)), of_stream,
         seeds, mask);
}

}  // namespace ndtrain::cuda
