#include "framework/sparse/low_rank/low_rank.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace ndtrain {
namespace {

constexpr size_t kLanes = 16;

// Lane i adds up elements i, i + 16, …, and the lanes are added from the first on.
float dot(const float* a, const float* b, size_t n) {
  std::array<float, kLanes> lanes{};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
  }
  for (size_t l = 0; i + l < n; ++l) lanes[l] += a[i + l] * b[i + l];
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

double dot_in_double(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sum;
}

}  // namespace

void multiply(std::span<const float> m, MatrixSize size, std::span<const float> q,
              std::span<float> out) {
  const auto rows = static_cast<size_t>(size.rows), columns = static_cast<size_t>(size.columns);
  const size_t vectors = q.size() / columns;
  for (size_t i = 0; i < rows; ++i) {
    for (size_t c = 0; c < vectors; ++c) {
      out[c * rows + i] = dot(m.data() + i * columns, q.data() + c * columns, columns);
    }
  }
}

void multiply_transposed(std::span<const float> m, MatrixSize size, std::span<const float> p,
                         std::span<float> out) {
  const auto rows = static_cast<size_t>(size.rows), columns = static_cast<size_t>(size.columns);
  std::ranges::fill(out, 0.0F);
  for (size_t i = 0; i < rows; ++i) {
    const float* const row = m.data() + i * columns;
    for (size_t c = 0; c * columns < out.size(); ++c) {
      const float factor = p[c * rows + i];
      float* const to = out.data() + c * columns;
      for (size_t j = 0; j < columns; ++j) to[j] += factor * row[j];
    }
  }
}

void add_up_products(std::span<const float> p, std::span<const float> q, MatrixSize size,
                     std::span<float> m) {
  const auto rows = static_cast<size_t>(size.rows), columns = static_cast<size_t>(size.columns);
  std::ranges::fill(m, 0.0F);
  for (size_t i = 0; i < rows; ++i) {
    float* const row = m.data() + i * columns;
    for (size_t c = 0; c * columns < q.size(); ++c) {
      const float factor = p[c * rows + i];
      const float* const from = q.data() + c * columns;
      for (size_t j = 0; j < columns; ++j) row[j] += factor * from[j];
    }
  }
}

void orthonormalise(std::span<float> vectors, int64_t length) {
  // Of a vector that is its predecessors' but for rounding, not even the direction is left.
  constexpr double kNothing = 1e-6;
  const auto n = static_cast<size_t>(length);
  for (size_t c = 0; c * n < vectors.size(); ++c) {
    const std::span<float> v = vectors.subspan(c * n, n);
    const double before = std::sqrt(dot_in_double(v, v));
    for (size_t b = 0; b < c; ++b) {
      const std::span<const float> basis = vectors.subspan(b * n, n);
      const double along = dot_in_double(v, basis);
      for (size_t i = 0; i < n; ++i) {
        v[i] =
            static_cast<float>(static_cast<double>(v[i]) - along * static_cast<double>(basis[i]));
      }
    }
    const double norm = std::sqrt(dot_in_double(v, v));
    const double scale = norm > kNothing * before ? 1 / norm : 0;
    for (float& x : v) x = static_cast<float>(static_cast<double>(x) * scale);
  }
}

}  // namespace ndtrain
