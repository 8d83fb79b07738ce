#include "framework/train/trainer_config.h"

#include <algorithm>
#include <cmath>

#include "framework/core/error.h"

namespace ndtrain {

int64_t TrainerConfig::most_rows() const {
  const int64_t of_shard = (batch + shards - 1) / shards;
  return (of_shard + accumulate - 1) / accumulate;
}

int TrainerConfig::parts_of(int64_t rows, bool batch_statistics) const {
  int64_t parts = (rows + most_rows() - 1) / most_rows();
  if (batch_statistics && most_rows() > 1) parts = std::min(parts, std::max<int64_t>(rows / 2, 1));
  return static_cast<int>(parts);
}

std::span<const int64_t> rows_of_part(std::span<const int64_t> rows, int number, int parts) {
  const auto begin = rows.size() * static_cast<size_t>(number) / static_cast<size_t>(parts);
  const auto end = rows.size() * static_cast<size_t>(number + 1) / static_cast<size_t>(parts);
  return rows.subspan(begin, end - begin);
}

void TrainerConfig::check() const {
  if (batch < 1) throw Error("a batch has at least one item, not ", batch);
  if (epochs < 1) throw Error("a run has at least one epoch, not ", epochs);
  if (!(warmup_epochs >= 0) || !std::isfinite(warmup_epochs)) {
    throw Error("a warm-up of ", warmup_epochs, " epochs; 0 is the least");
  }
  if (labels_of_row < 1) throw Error("a row has at least one label, not ", labels_of_row);
  if (shards < 1) throw Error("a batch has at least one shard, not ", shards);
  if (accumulate < 1) {
    throw Error("a step has at least one part, not ", accumulate);
  }
  if (batch / shards < accumulate && accumulate > 1) {
    throw Error("a batch of ", batch, " is not enough for ", accumulate, " parts of ", shards,
                " shards: each has a row of it at least");
  }
}

}  // namespace ndtrain
