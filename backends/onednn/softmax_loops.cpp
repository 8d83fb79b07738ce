// See softmax_loops.h and block_lanes.inc. Each lane sums every kBlock-th number; lanes are summed
// in their order, so that a row's bits depend on the row alone.
#include "backends/onednn/softmax_loops.h"

#include "backends/onednn/block_lanes.inc"

namespace ndtrain::onednn::NDT_ISA {
namespace {

constexpr float kInfinity = __builtin_inff();

// For x <= 0, closer than bf16 sees: 2^n (1 + r + r^2 (...)), with the first of the coefficients of
// the cpu plugin's math.h. Below -87 it is 0, a NaN stays one.
Vec exp_of(Vec x) {
  const Vec low = Vec{} - 87.0F;
  const Vec held = x < low ? low : x;
  const Vec whole = Vec{} + 12582912.0F;
  const Vec shifted = held * 1.44269504F + whole;
  const Vec n = shifted - whole;
  Vec r = held - n * 0.693359375F;
  r = r + n * 2.12194440e-4F;
  Vec p = Vec{} + 0.00833326578F;
  p = p * r + 0.0416662693F;
  p = p * r + 0.166666672F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const Bits power = (reinterpret_cast<Bits>(shifted) - reinterpret_cast<Bits>(whole)) << 23;
  const Vec y = reinterpret_cast<Vec>(reinterpret_cast<Bits>(p) + power);
  return x < low ? Vec{} : y;
}

Vec load(const float* x) { return F32::load(reinterpret_cast<const char*>(x)); }
void store(float* x, Vec v) { F32::store(reinterpret_cast<char*>(x), v); }

float bf16(uint16_t x) {
  const uint32_t bits = uint32_t{x} << 16;
  float f = 0;
  __builtin_memcpy(&f, &bits, sizeof f);
  return f;
}

// Scaled and masked, and -inf up to a whole vector; gives the largest.
float prepare(const float* x, int64_t n, float scale, MaskRow mask, float* to) {
  Vec tops = Vec{} - kInfinity;
  int64_t i = 0;
  const float all = mask.data && mask.step == 0 ? bf16(*mask.data) : 0;
  for (; i + kBlock <= n; i += kBlock) {
    Vec v = load(x + i) * scale + all;
    if (mask.step == 1) v += Bf16::load(reinterpret_cast<const char*>(mask.data + i));
    store(to + i, v);
    tops = v > tops ? v : tops;
  }
  float top = -kInfinity;
  for (int64_t k = 0; k < kBlock && i < n; ++k) {
    const bool there = i + k < n;
    const float more = there && mask.step == 1 ? bf16(mask.data[i + k]) : all;
    to[i + k] = there ? x[i + k] * scale + more : -kInfinity;
    top = to[i + k] > top ? to[i + k] : top;
  }
  for (int l = 0; l < kBlock; ++l) top = tops[l] > top ? tops[l] : top;
  return top;
}

void weigh(const float* x, int64_t n, float scale, MaskRow mask, float* scratch, uint16_t* y) {
  const float top = prepare(x, n, scale, mask, scratch);
  Vec sums{};
  for (int64_t i = 0; i < n; i += kBlock) {
    const Vec e = exp_of(load(scratch + i) - top);
    store(scratch + i, e);
    sums += e;
  }
  float sum = 0;
  for (int l = 0; l < kBlock; ++l) sum += sums[l];
  const float share = 1 / sum;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    Bf16::store(reinterpret_cast<char*>(y + i), load(scratch + i) * share);
  }
  uint16_t rest[kBlock];
  if (i < n) Bf16::store(reinterpret_cast<char*>(rest), load(scratch + i) * share);
  for (int64_t k = 0; i + k < n; ++k) y[i + k] = rest[k];
}

}  // namespace

SoftmaxRow softmax_row() { return weigh; }

}  // namespace ndtrain::onednn::NDT_ISA
