#include "framework/train/shard_sums.h"

#include <algorithm>

#include "framework/comm/sum_tree.h"

namespace ndtrain {
namespace {

Graph addition(int64_t n) {
  const TensorType flat{DType::kF32, {n}};
  Graph g;
  const ValueId left = g.add_input("left", flat), right = g.add_input("right", flat);
  g.mark_output(g.add("Add", {left, right})[0]);
  return g;
}

}  // namespace

struct ShardSums::Addition {
  Addition(int64_t n, const Device& device) : plan(addition(n), device), executor(plan) {}
  Plan plan;
  Executor executor;
};

ShardSums::ShardSums(int64_t size, ShardRange own, int shards, const Device& device, float* first)
    : size_(size), own_(own), device_(device) {
  size_t waiting = 0, most = 0;
  for (int v = own.begin; v < own.end; ++v) {
    pushed_at_.push_back(waiting);
    most = std::max(most, waiting + 1);
    waiting = subtrees_of(own.begin, v + 1, shards).size();
    left_.push_back(waiting);
  }
  for (size_t i = 0; i < most; ++i) {
    if (i == 0 && first) {
      sums_.push_back(first);
      continue;
    }
    sums_.push_back(
        static_cast<float*>(memory_.emplace_back(device, TensorType{DType::kF32, {size}}).data()));
  }
  subtrees_.assign(sums_.begin(), sums_.begin() + static_cast<std::ptrdiff_t>(waiting));
}

ShardSums::~ShardSums() = default;

float* ShardSums::part() {
  if (!part_.data()) part_ = DeviceTensor(device_, {DType::kF32, {size_}});
  return static_cast<float*>(part_.data());
}

void ShardSums::add_part(int shard, ParameterRange range) {
  add(this->shard(shard), part(), range);
}

void ShardSums::add(int shard, ParameterRange range) {
  for (size_t top = pushed_at_[index_of(shard)]; top >= left_[index_of(shard)]; --top) {
    add(sums_[top - 1], sums_[top], range);
  }
}

void ShardSums::add(float* to, const float* from, ParameterRange range) {
  std::unique_ptr<Addition>& a = additions_[range.size()];
  if (!a) a = std::make_unique<Addition>(range.size(), device_);
  a->executor.run(std::vector<const void*>{to + range.begin, from + range.begin},
                  std::vector<void*>{to + range.begin});
}

}  // namespace ndtrain
