#include "backends/cuda/kernels/grid.h"
#include "backends/cuda/kernels/training.h"

namespace ndtrain::cuda {
namespace {

template <typename T>
__global__ void sgd(int64_t n, bool nesterov, const T* w, const T* g, const T* m,
                    const float* hyper, T* w_new, T* m_new) {
  using W = Wide<T>;
  const W lr = static_cast<W>(hyper[0]), momentum = static_cast<W>(hyper[1]),
          decay = static_cast<W>(hyper[2]);
  for (int64_t i = first_index(); i < n; i += all_threads()) {
    const W weight = widen(w[i]), gradient = widen(g[i]) + decay * weight;
    const W velocity = momentum * widen(m[i]) + gradient;
    const W step = nesterov ? gradient + momentum * velocity : velocity;
    w_new[i] = narrow<T>(weight - lr * step);
    m_new[i] = narrow<T>(velocity);
  }
}

template <typename T>
__global__ void adam(int64_t n, bool decoupled, const T* w, const T* g, const T* m, const T* v,
                     const float* hyper, T* w_new, T* m_new, T* v_new) {
  using W = Wide<T>;
  W h[7];
  NDT_UNROLL
  for (int k = 0; k < 7; ++k) h[k] = static_cast<W>(hyper[k]);
  const W beta1 = h[1], beta2 = h[2], eps = h[3], rate = h[0] / h[5], correction = h[6];
  const W shrink = decoupled ? W(1) - h[0] * h[4] : W(1), decay = decoupled ? W(0) : h[4];
  for (int64_t i = first_index(); i < n; i += all_threads()) {
    const W weight = widen(w[i]), gradient = widen(g[i]) + decay * weight;
    const W first = beta1 * widen(m[i]) + (W(1) - beta1) * gradient;
    const W second = beta2 * widen(v[i]) + (W(1) - beta2) * gradient * gradient;
    const W step = rate * first / (std::sqrt(second / correction) + eps);
    w_new[i] = narrow<T>(weight * shrink - step);
    m_new[i] = narrow<T>(first);
    v_new[i] = narrow<T>(second);
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

void adam_step(ndt_dtype t, int64_t n, bool decoupled, const void* const* in, void* const* out,
               cudaStream_t stream) {
  if (n == 0) return;
  for_float(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    const auto from = [&](int k) { return static_cast<const T*>(in[k]); };
    const auto to = [&](int k) { return static_cast<T*>(out[k]); };
    launch(adam<T>, extent_for(n), stream, n, decoupled, from(0), from(1), from(2), from(3),
           static_cast<const float*>(in[4]), to(0), to(1), to(2));
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
