#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ndtrain {

// How large the values of one activation are. Its range grows with what is added, so that one pass
// over the photos is enough; the result depends on the values alone, but for where its bins end.
class Histogram {
 public:
  void add(std::span<const float> values);

  int64_t count() const { return count_; }
  double largest() const { return largest_; }
  // A magnitude that `share` of the values do not exceed. 0 without values.
  double magnitude(double share) const;
  // The largest magnitude worth telling apart: clipping there and rounding to `steps` steps below
  // makes the smallest squared error.
  double best_clip(int steps) const;

 private:
  static constexpr size_t kBins = 4096;
  double width() const { return top_ / kBins; }
  void grow(double to);

  double top_ = 0, largest_ = 0;  // bins cover [0, top_)
  int64_t count_ = 0;
  std::vector<int64_t> bins_;
};

}  // namespace ndtrain
