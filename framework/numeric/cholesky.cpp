#include "framework/numeric/cholesky.h"

#include <cmath>

#include "framework/core/error.h"

namespace ndtrain {

std::optional<Cholesky> Cholesky::of(std::vector<double> a, size_t n) {
  if (a.size() != n * n) throw Error("Cholesky: ", a.size(), " numbers are not ", n, " x ", n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[i * n + j];
      for (size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      if (i != j) {
        a[i * n + j] = sum / a[j * n + j];
      } else if (sum > 0) {  // not where it is NaN
        a[i * n + i] = std::sqrt(sum);
      } else {
        return {};
      }
    }
  }
  return Cholesky(std::move(a), n);
}

std::vector<double> Cholesky::half_solve(std::span<const double> b) const {
  std::vector<double> x(b.begin(), b.end());
  for (size_t i = 0; i < n_; ++i) {
    for (size_t k = 0; k < i; ++k) x[i] -= l_[i * n_ + k] * x[k];
    x[i] /= l_[i * n_ + i];
  }
  return x;
}

std::vector<double> Cholesky::solve(std::span<const double> b) const {
  std::vector<double> x = half_solve(b);
  for (size_t i = n_; i-- > 0;) {
    for (size_t k = i + 1; k < n_; ++k) x[i] -= l_[k * n_ + i] * x[k];
    x[i] /= l_[i * n_ + i];
  }
  return x;
}

double Cholesky::log_determinant() const {
  double sum = 0;
  for (size_t i = 0; i < n_; ++i) sum += 2 * std::log(l_[i * n_ + i]);
  return sum;
}

}  // namespace ndtrain
