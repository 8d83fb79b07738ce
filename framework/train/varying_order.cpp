#include "framework/train/varying_order.h"

#include <algorithm>
#include <numeric>
#include <ostream>
#include <string>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/rng.h"

namespace ndtrain {

VaryingOrder::VaryingOrder(const Data& data, BatchSizes sizes, ShardRange own, uint64_t seed,
                           int64_t epoch, int64_t step, int64_t used)
    : data_(data),
      sizes_(std::move(sizes)),
      own_(own),
      step_(step),
      used_(used),
      used_before_(used),
      size_(std::max<int64_t>(data.batch, 1)),
      order_(permutation(data.rows, Rng(seed, "shuffle epoch " + std::to_string(epoch)))) {
  if (step < 0 || used < 0 || used > data.rows || (step == 0) != (used == 0)) {
    throw Error("epoch ", epoch + 1, ": ", step, " steps have used ", used, " of ", data.rows,
                " rows");
  }
}

void VaryingOrder::begin_step(int64_t step) {
  const int64_t left = data_.rows - used_;
  const std::vector<int64_t> sizes = sizes_(left);
  size_ = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (sizes.empty() || std::ranges::min(sizes) < 0 || size_ < 1 || size_ > left) {
    throw Error("step ", step + 1, " has ", size_, " rows of ", left, ", on ", sizes.size(),
                " shards");
  }
  first_ = {used_};
  for (const int64_t size : sizes) first_.push_back(first_.back() + size);
  used_before_ = std::exchange(used_, used_ + size_);
  step_ = step + 1;
}

int64_t VaryingOrder::steps() const { return step_ + (data_.rows - used_ + size_ - 1) / size_; }

int64_t VaryingOrder::scheduled(int64_t step) const {
  return (step < step_ ? used_before_ : used_) / std::max<int64_t>(data_.batch, 1);
}

std::span<const int64_t> VaryingOrder::rows(int shard, int64_t step) const {
  const auto n = static_cast<size_t>(row_count(shard, step));
  return std::span(order_).subspan(static_cast<size_t>(first_[static_cast<size_t>(shard)]), n);
}

int64_t VaryingOrder::row_count(int shard, int64_t step) const {
  if (step + 1 != step_ || first_.empty()) {
    throw Error("rows of step ", step + 1, ", but ", step_, " is under way");
  }
  const auto i = static_cast<size_t>(shard);
  const int64_t n = first_[i + 1] - first_[i];
  const bool is_part = first_.back() - first_.front() > 1;
  return n == 1 && is_part && data_.no_single_rows ? 0 : n;
}

int64_t VaryingOrder::row_count(int64_t step) const {
  int64_t n = 0;
  for (size_t i = 0; i + 1 < first_.size(); ++i) n += row_count(static_cast<int>(i), step);
  return n;
}

}  // namespace ndtrain
