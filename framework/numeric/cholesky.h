// A = L L' of a symmetric positive definite matrix of doubles, n x n, row by row.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace ndtrain {

class Cholesky {
 public:
  // Reads the lower triangle of `a`. Empty: not positive definite. Throws Error unless a is n x n.
  static std::optional<Cholesky> of(std::vector<double> a, size_t n);

  std::vector<double> half_solve(std::span<const double> b) const;  // L x = b
  std::vector<double> solve(std::span<const double> b) const;       // A x = b
  double log_determinant() const;                                   // of A

 private:
  Cholesky(std::vector<double> l, size_t n) : l_(std::move(l)), n_(n) {}

  std::vector<double> l_;
  size_t n_;
};

}  // namespace ndtrain
