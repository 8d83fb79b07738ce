#include "framework/train/trainer_config.h"

#include "framework/core/error.h"

namespace ndtrain {

int64_t TrainerConfig::most_rows() const {
  const int64_t of_shard = (batch + shards - 1) / shards;
  return (of_shard + accumulate - 1) / accumulate;
}

void TrainerConfig::check() const {
  if (batch < 1) throw Error("a batch has at least one item, not ", batch);
  if (epochs < 1) throw Error("a run has at least one epoch, not ", epochs);
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
