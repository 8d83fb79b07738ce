// Which rows of a dataset each shard does in each step of one epoch.
#pragma once

#include <cstdint>
#include <span>

namespace ndtrain {

// Of all shards, and the rows of the own ones. One thread.
class RowOrder {
 public:
  virtual ~RowOrder() = default;

  // That step is next: the first, or the one behind the last that began.
  virtual void begin_step(int64_t /*step*/) {}
  // Of the epoch in all; where sizes of steps vary, by what they are now.
  virtual int64_t steps() const = 0;
  // What the schedule of the learning rate has for a step: steps of the size that the training was
  // asked for.
  virtual int64_t scheduled(int64_t step) const { return step; }
  // Rows of the dataset that the steps so far have used, where no number of steps says it; else 0.
  virtual int64_t used() const { return 0; }

  // Of an own shard; none when it has run out.
  virtual std::span<const int64_t> rows(int shard, int64_t step) const = 0;
  // Of any shard, and of all: each row of a step weighs 1 / row_count(step).
  virtual int64_t row_count(int shard, int64_t step) const = 0;
  virtual int64_t row_count(int64_t step) const = 0;
};

}  // namespace ndtrain
