// Features of one extractor that different plugins, versions or processors computed are not equal
// bit for bit. Whether they may stand beside each other is decided on a few photos.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "framework/core/dtype.h"
#include "framework/graph/graph.h"
#include "framework/runtime/backend.h"

namespace ndtrain::ndp {

// How far features of other numerics may be off: a share of the features' standard deviation.
inline constexpr double kNumericsTolerance = 1e-3;
// How many photos of each other numerics are computed anew to find out.
inline constexpr size_t kNumericsSample = 8;

// What decides the bits of a feature besides its extractor: the backend's own numerics, and the
// version and photo decoders of this program, which preprocesses photos and folds the graph.
std::string feature_numerics(const Device& device);

// Compares photos' features with the same photos' features computed here.
class NumericsCheck {
 public:
  // `row_types` are the extractor's outputs for a batch of 1; rows hold them one after the other.
  explicit NumericsCheck(std::vector<TensorType> row_types);

  void add(std::span<const std::byte> theirs, std::span<const std::byte> ours);

  size_t rows() const { return rows_; }
  // The largest difference, as a share of the standard deviation of that output's values. One
  // rounding step of the outputs' type does not count: values a hair apart may round away from each
  // other. Infinite when one of the two is no number, or differs where all values are equal.
  double difference() const;
  bool passed() const { return rows_ > 0 && difference() <= kNumericsTolerance; }

 private:
  struct Output {
    TensorType type;
    double n = 0, mean = 0, squares = 0;  // of what was computed here
    double largest = 0;                   // difference
  };

  std::vector<Output> outputs_;
  size_t rows_ = 0;
  std::vector<double> theirs_, ours_;
};

}  // namespace ndtrain::ndp
