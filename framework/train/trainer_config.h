#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "framework/core/dtype.h"
#include "framework/train/optimizer.h"
#include "framework/train/schedule.h"
#include "framework/train/shards.h"

namespace ndtrain {

struct TrainerConfig {
  int64_t epochs = 15, batch = 64;  // epochs of one run; the schedule begins anew with the next
  OptimizerConfig optimizer = {};
  // The Trainer sets its numbers of steps; warm-up is warmup_epochs.
  Schedule schedule = {};
  double warmup_epochs = 0;
  double label_smoothing = 0;
  int64_t labels_of_row = 1;  // at most: see Dataset::labels_of_row()
  // bf16 or f16: all but the last layers compute so, the weights stay f32.
  DType compute = DType::kF32;
  uint64_t seed = 0;
  // A step is computed in so many parts, one after the other, whose gradients are added up: it
  // takes the memory of a part. What sees a part as its batch is batch statistics alone. A step of
  // few rows has fewer parts.
  int64_t accumulate = 1;
  // A step's rows are those of so many shards (shards.h). This process does `own_shards`; those of
  // the others come by its GradientSync. Without, all of them.
  int shards = 1;
  std::optional<ShardRange> own_shards = {};
  // Borrowed: where moments lie, and updates are made by a GradientSync that has the parameters
  // there; null: where steps are computed.
  const Device* update_device = nullptr;

  int64_t most_rows() const;  // of a part
  // Of so many rows of a shard. A part with a single row would make poor batch statistics.
  int parts_of(int64_t rows, bool batch_statistics) const;
  void check() const;  // throws Error
};

// One of the parts of a shard's rows in a step.
std::span<const int64_t> rows_of_part(std::span<const int64_t> rows, int number, int parts);

}  // namespace ndtrain
