#pragma once

#include <atomic>
#include <cstdint>

namespace ndtrain::ndp {

// How many photos to infer at once, found while they are inferred: twice as many, as long as that
// makes a photo faster. One thread tells how long batches took, any may ask.
class BatchGrowth {
 public:
  // From `first` to `most`, both at least 1; equal: nothing is measured.
  BatchGrowth(int64_t first, int64_t most);

  int64_t batch() const { return batch_; }
  // Batches of another size than batch() do not count, nor does the first of each size, for which a
  // plan is made.
  void took(int64_t photos, double seconds);

 private:
  void judge();

  const int64_t most_;
  std::atomic<int64_t> batch_;
  int64_t smaller_ = 0;  // the size before this one; 0: none
  int seen_ = 0;
  double photo_s_ = 0, smaller_photo_s_ = 0;  // the fastest
  bool settled_;
};

}  // namespace ndtrain::ndp
