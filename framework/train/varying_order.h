// Steps whose sizes, and what of them each shard does, are found out on the way.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "framework/train/row_order.h"
#include "framework/train/shards.h"

namespace ndtrain {

// Rows of each shard of a training in its next step, of so many that are left in the epoch: called
// once for each step, in order, on all ranks alike. One row in all at least.
using BatchSizes = std::function<std::vector<int64_t>(int64_t left)>;

// All shards take their rows of a step from one order of the dataset, so that they run out
// together.
class VaryingOrder final : public RowOrder {
 public:
  struct Data {
    int64_t rows = 0, batch = 0;  // of the dataset; of a step that the training was asked for
    // As EpochOrder::Data has it.
    bool no_single_rows = false;
  };

  // The order is a function of the seed and the epoch. Goes on behind `step` steps, which have
  // used `used` rows. Throws Error where there are no so many.
  VaryingOrder(const Data& data, BatchSizes sizes, ShardRange own, uint64_t seed, int64_t epoch,
               int64_t step, int64_t used);

  // Asks for its size. Throws Error for one that has no row, less than none or more than are left.
  void begin_step(int64_t step) override;
  int64_t steps() const override;
  int64_t scheduled(int64_t step) const override;
  int64_t used() const override { return used_; }

  // Of the step that is under way alone.
  std::span<const int64_t> rows(int shard, int64_t step) const override;
  int64_t row_count(int shard, int64_t step) const override;
  int64_t row_count(int64_t step) const override;

 private:
  Data data_;
  BatchSizes sizes_;
  ShardRange own_;
  int64_t step_, used_;  // that are done or under way; by these
  int64_t used_before_;  // by those before the last
  int64_t size_;         // of the last
  std::vector<int64_t> order_;
  std::vector<int64_t> first_;  // of each shard in the step, in `order_`; and of what follows
};

}  // namespace ndtrain
