#pragma once

#include <cstdint>

namespace ndtrain::ndp {

// The rows of one shard of a dataset: row n is shard n mod V's (framework/train/shards.h). They are
// drawn and mixed among themselves where whoever computes a shard has no other rows.
struct ShardRows {
  int64_t shard = 0, shards = 1;

  static ShardRows with(int64_t row, int64_t shards) { return {row % shards, shards}; }
  // Of a dataset of so many rows, more than `shard`.
  int64_t count(int64_t rows) const { return (rows - shard + shards - 1) / shards; }
  int64_t row(int64_t k) const { return k * shards + shard; }  // the k-th
};

}  // namespace ndtrain::ndp
