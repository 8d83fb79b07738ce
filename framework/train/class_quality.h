// What a confusion matrix says of each class, and whether probabilities are what they seem.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ndtrain {

// Of one class, one against all others. What is a part of nothing is absent.
struct ClassQuality {
  int64_t rows = 0, predicted = 0, right = 0;  // of the class; as it; both

  std::optional<double> precision() const { return part(right, predicted); }
  std::optional<double> recall() const { return part(right, rows); }
  // The harmonic mean of both, where both are there.
  std::optional<double> f1() const { return part(2 * right, rows + predicted); }

 private:
  static std::optional<double> part(int64_t some, int64_t all) {
    if (all == 0) return std::nullopt;
    return static_cast<double>(some) / static_cast<double>(all);
  }
};

// `confusion`: [classes, classes], rows are the truth.
inline std::vector<ClassQuality> class_quality(std::span<const int64_t> confusion) {
  const auto n = static_cast<size_t>(std::llround(std::sqrt(confusion.size())));
  std::vector<ClassQuality> classes(n);
  for (size_t truth = 0; truth < n; ++truth) {
    for (size_t taken_for = 0; taken_for < n; ++taken_for) {
      const int64_t rows = confusion[truth * n + taken_for];
      classes[truth].rows += rows;
      classes[taken_for].predicted += rows;
      if (truth == taken_for) classes[truth].right = rows;
    }
  }
  return classes;
}

// The mean F1 of the classes that have rows, each counting alike; absent without any.
inline std::optional<double> macro_f1(std::span<const ClassQuality> classes) {
  double sum = 0;
  int64_t n = 0;
  for (const ClassQuality& c : classes) {
    if (c.rows == 0) continue;
    sum += *c.f1();
    ++n;
  }
  if (n == 0) return std::nullopt;
  return sum / static_cast<double>(n);
}

// Expected calibration error (Guo et al., "On Calibration of Modern Neural Networks", ICML 2017):
// in 15 bins of equal width, how far the share of right predictions is from the mean probability
// that they were made with, weighted by the bins' rows.
class CalibrationError {
 public:
  // Of a row: the probability of the class that it was taken for, and whether it is of it. NaN is
  // left out.
  void add(double probability, bool right) {
    if (std::isnan(probability)) return;
    const auto count = static_cast<double>(bins_.size());
    const double bin = std::clamp(std::ceil(probability * count) - 1, 0.0, count - 1);
    Bin& b = bins_[static_cast<size_t>(bin)];
    ++b.rows;
    b.right += right;
    b.probability += probability;
  }

  std::optional<double> value() const {  // absent without rows
    double sum = 0;
    int64_t rows = 0;
    for (const Bin& b : bins_) {
      sum += std::abs(static_cast<double>(b.right) - b.probability);
      rows += b.rows;
    }
    if (rows == 0) return std::nullopt;
    return sum / static_cast<double>(rows);
  }

 private:
  struct Bin {
    int64_t rows = 0, right = 0;
    double probability = 0;  // sum
  };
  std::array<Bin, 15> bins_;
};

}  // namespace ndtrain
