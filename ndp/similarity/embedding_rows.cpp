#include "ndp/similarity/embedding_rows.h"

#include <cmath>

#include "ndp/similarity/lanes.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kLanesOfRows = 16;  // at a time, which the compiler keeps in vector registers

}  // namespace

EmbeddingRows centred(EmbeddingRows rows) {
  const size_t n = rows.size(), d = rows.dimensions;
  if (n == 0) return rows;
  std::vector<double> mean(d);
  for (size_t i = 0; i < rows.values.size(); ++i) mean[i % d] += double{rows.values[i]};
  for (double& m : mean) m /= static_cast<double>(n);
  double squares = 0;
  for (size_t i = 0; i < rows.values.size(); ++i) {
    const double x = double{rows.values[i]} - mean[i % d];
    squares += x * x;
    rows.values[i] = static_cast<float>(x);
  }
  const double scale = squares > 0 ? std::sqrt(static_cast<double>(n * d) / squares) : 0;
  for (float& x : rows.values) x = static_cast<float>(double{x} * scale);
  return rows;
}

float product(std::span<const float> a, std::span<const float> b) {
  return product_in_lanes(a.data(), b.data(), a.size());
}

void add_scaled(std::span<float> to, float times, std::span<const float> row) {
  float* const t = to.data();
  const float* const r = row.data();
  const size_t n = row.size();
  size_t i = 0;
  for (; i + kLanesOfRows <= n; i += kLanesOfRows) {
    for (size_t lane = 0; lane < kLanesOfRows; ++lane) t[i + lane] += times * r[i + lane];
  }
  for (; i < n; ++i) t[i] += times * r[i];
}

}  // namespace ndtrain::ndp
