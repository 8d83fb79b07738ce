#include "backends/cpu/kernels/tap_stage.h"

#include <algorithm>

#include "backends/cpu/gemm/vec.h"

namespace ndtrain::cpu {
namespace {

// to[u] = from[2 u] for u up to n, N at a time. Reads nothing past the last one.
template <int N>
void halve(int64_t& u, int64_t n, const float* from, float* to) {
  using Some = typename VecOf<N>::Loose;
  typename VecOf<N>::Index even{};
  for (int i = 0; i < N; ++i) even[i] = i < N / 2 ? 2 * i : 2 * i + 1;  // b begins at an odd place
  for (; u + N <= n; u += N) {
    const Some a = *reinterpret_cast<const Some*>(from + 2 * u);
    const Some b = *reinterpret_cast<const Some*>(from + 2 * u + N - 1);
    *reinterpret_cast<Some*>(to + u) = __builtin_shuffle(a, b, even);
  }
}

}  // namespace

TapStage::TapStage(Pair in, Pair kernel, Pair out, Pair stride, Pair dilation, Pair begin)
    : in_(in), stride_(stride), begin_(begin) {
  for (int64_t ky = 0; ky < kernel[0]; ++ky) {
    for (int64_t kx = 0; kx < kernel[1]; ++kx) {
      const int64_t y = ky * dilation[0], x = kx * dilation[1];
      const Pair remainders = {y % stride[0], x % stride[1]};
      const auto found = std::find(phases_.begin(), phases_.end(), remainders);
      taps_.push_back({found - phases_.begin(), y / stride[0], x / stride[1]});
      if (found == phases_.end()) phases_.push_back(remainders);
      shift_rows_ = std::max(shift_rows_, taps_.back().row);
      width_ = std::max(width_, out[1] + taps_.back().col);
    }
  }
  direct_ = stride == Pair{1, 1} && begin == Pair{0, 0} && width_ <= in[1] &&
            out[0] + shift_rows_ <= in[0];
  if (direct_) width_ = in[1];
}

void TapStage::fill(const float* plane, int64_t first_row, int64_t rows, float pad,
                    float* to) const {
  for (const Pair& remainders : phases_) {
    for (int64_t r = 0; r < rows + shift_rows_; ++r, to += width_) {
      const int64_t y = (first_row + r) * stride_[0] + remainders[0] - begin_[0];
      if (y >= 0 && y < in_[0]) {
        fill_row(plane + y * in_[1], remainders[1], pad, to);
      } else {
        std::fill(to, to + width_, pad);
      }
    }
  }
}

void TapStage::fill_row(const float* row, int64_t remainder, float pad, float* to) const {
  const auto ceil_div = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t stride = stride_[1], x0 = remainder - begin_[1], room = in_[1] - x0;
  const int64_t left = x0 < 0 ? std::min(width_, ceil_div(-x0, stride)) : 0;
  const int64_t right = std::clamp(room > 0 ? ceil_div(room, stride) : 0, left, width_);
  std::fill(to, to + left, pad);
  if (stride == 1) {
    if (left < right) std::copy(row + (x0 + left), row + (x0 + right), to + left);
  } else if (stride == 2) {
    const float* from = row + (x0 + left * 2);
    int64_t u = 0;
    halve<kLanes>(u, right - left, from, to + left);
    if constexpr (kLanes > 4) halve<4>(u, right - left, from, to + left);
    for (; u < right - left; ++u) to[left + u] = from[2 * u];
  } else {
    for (int64_t u = left; u < right; ++u) to[u] = row[x0 + u * stride];
  }
  std::fill(to + right, to + width_, pad);
}

}  // namespace ndtrain::cpu
