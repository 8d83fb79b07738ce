// A batch as the union of the rows of V shards, whoever computes them, so that how many ranks there
// are decides nothing: virtual ranks, as EasyScale (Li et al., SC'23) has them for GPUs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/train/row_order.h"

namespace ndtrain {

// Neighbouring shards [begin, end), those of one rank.
struct ShardRange {
  int begin = 0, end = 1;
  int size() const { return end - begin; }
  bool operator==(const ShardRange&) const = default;
};

// Where each rank's shards begin, and the last one's end: in proportion to `shares`, one for each
// rank, each rank at least one shard. Throws Error where there are fewer shards than ranks, or a
// share is not positive.
std::vector<int> shards_of_ranks(int shards, std::span<const double> shares);
// The same so that the rank that is done last is done soonest, where a shard takes rank r
// `shard_s[r]` seconds.
std::vector<int> fastest_shards(int shards, std::span<const double> shard_s);

// The seed of a shard's order and dropout; the first shard has the run's.
uint64_t seed_of_shard(uint64_t seed, int shard);
// The same of a part of a shard's rows; the first part has the shard's.
uint64_t seed_of_part(uint64_t seed, int shard, int part);

// Steps of one size: row n is shard n mod V's.
class EpochOrder final : public RowOrder {
 public:
  struct Data {
    int64_t rows = 0, batch = 0;  // of all shards; of a step
    int shards = 1;
    // A step has no shard with a single row, unless it never has more: one makes poor batch
    // statistics, and is seen in another epoch.
    bool no_single_rows = false;
  };

  // The order of the rows of `own` shards is a function of the seed, the shard and the epoch.
  // Throws Error where a step has fewer rows than shards.
  EpochOrder(const Data& data, ShardRange own, uint64_t seed, int64_t epoch);

  int64_t steps() const override { return steps_; }
  std::span<const int64_t> rows(int shard, int64_t step) const override;
  int64_t row_count(int shard, int64_t step) const override;
  int64_t row_count(int64_t step) const override;

 private:
  int64_t rows_of(int shard) const;   // of the dataset
  int64_t batch_of(int shard) const;  // of a step

  Data data_;
  ShardRange own_;
  int64_t steps_ = 0;
  std::vector<std::vector<int64_t>> orders_;  // of the own shards
};

}  // namespace ndtrain
