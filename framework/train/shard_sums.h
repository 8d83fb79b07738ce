// What the shards of one rank add up to, while they are computed one after the other.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "framework/runtime/device_tensor.h"
#include "framework/runtime/executor.h"
#include "framework/train/parameter_range.h"
#include "framework/train/shards.h"

namespace ndtrain {

// Vectors of f32, one for each of `own` shards of `shards`, are added pair by pair in the order of
// a tree over all shards (framework/comm/sum_tree.h), as a binary counter counts: so of V shards at
// most log2(V) + 1 vectors are kept, each the sum of a subtree. Not thread-safe.
class ShardSums {
 public:
  // Vectors of so many elements. `first`, device memory, takes the first subtree's sum; null: it
  // lies with the others. The device must outlive it. Throws Error.
  ShardSums(int64_t size, ShardRange own, int shards, const Device& device, float* first = nullptr);
  ~ShardSums();

  // Where the vector of this shard goes. They come in order.
  float* shard(int shard) const { return sums_[pushed_at_[index_of(shard)]]; }
  // Where a further part of a shard's vector goes, one after the other; add_part() adds that range
  // of it to the shard's.
  float* part();
  void add_part(int shard, ParameterRange range);
  // That range of it is there: adds up what is complete.
  void add(int shard, ParameterRange range);
  // The sums of the subtrees (subtrees_of()), from the left, once all shards are there.
  const std::vector<float*>& sums() const { return subtrees_; }

 private:
  struct Addition;
  void add(float* to, const float* from, ParameterRange range);
  size_t index_of(int shard) const { return static_cast<size_t>(shard - own_.begin); }

  const int64_t size_;
  const ShardRange own_;
  const Device& device_;
  std::vector<DeviceTensor> memory_;
  DeviceTensor part_;         // from when it is needed
  std::vector<float*> sums_;  // a stack of sums that wait for their right half
  std::vector<float*> subtrees_;
  std::vector<size_t> pushed_at_, left_;  // of each shard: its place there, how many are left then
  std::map<int64_t, std::unique_ptr<Addition>> additions_;  // by size
};

}  // namespace ndtrain
