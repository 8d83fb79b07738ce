// Means and variances that a training keeps beside its parameters: each step reads one set and
// makes the next, each shard of it its own; what follows is the mean over the shards.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/train/shard_sums.h"

namespace ndtrain {

// Of f32, on a device that must outlive it. Not thread-safe.
class RunningStatistics {
 public:
  struct Place {
    int64_t begin = 0, end = 0;  // elements; it begins on a cache line
    TensorType type;
  };

  // Begins with these; not none. Throws Error.
  RunningStatistics(const std::map<std::string, Tensor>& values, ShardRange own, int shards,
                    const Device& device);

  ~RunningStatistics();

  // Addresses of one statistic: what steps read, and where the step of a shard writes.
  const float* now(const std::string& name) const { return now_at(places_.at(name).begin); }
  const TensorType& type(const std::string& name) const { return places_.at(name).type; }
  // Of a shard that is computed in parts one after the other: each reads what the part before it
  // wrote, `left` says how many follow it.
  float* next(const std::string& name, int shard, int left = 0);
  // All that the shard has written is there; or the shard had no rows, and leaves them as they are.
  void add(int shard);
  void add_unchanged(int shard);

  // With the first of sums() being the sum over all shards: the step is applied.
  void advance();
  const std::vector<float*>& sums() const { return next_.sums(); }
  int64_t size() const { return size_; }  // of a sum

  std::map<std::string, Tensor> copy() const;
  void set(const std::string& name, const Tensor& value);  // throws Error when the type differs

 private:
  struct Mean;
  float* now_at(int64_t at) const { return static_cast<float*>(now_.data()) + at; }

  const Device& device_;
  std::map<std::string, Place> places_;
  int64_t size_;
  DeviceTensor now_;
  ShardSums next_;
  std::unique_ptr<Mean> mean_;
};

}  // namespace ndtrain
