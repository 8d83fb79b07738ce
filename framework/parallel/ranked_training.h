// A training that several ranks do together.
#pragma once

#include <functional>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/core/shape.h"
#include "framework/train/shards.h"
#include "framework/train/training.h"

namespace ndtrain {

// All ranks make the same calls in the same order, on datasets of the same rows, of which a rank
// only fetches those of its shards. A rank that is lost is a RankLost of the others. One thread.
class RankedTraining : public Training {
 public:
  virtual Communicator& communicator() = 0;
  virtual int shards() const = 0;  // that the rows are dealt out to: row i is of shard i % shards()
  virtual ShardRange own_shards() const = 0;  // of this rank; none: it fetches no rows
  virtual const std::vector<TensorType>& row_types() const = 0;  // of what a row is made of

  // Whether this rank has all that evaluate(), model() and checkpoint() give, until rows are
  // trained on or something else is changed. If not, they are collective, as gather() is. Where
  // ranks regroup in gather(), it has to be asked for again.
  virtual bool gathered() const { return true; }
  virtual void gather() {}

  // For what ranks do together besides: where it has thrown `lost`, the others have regrouped on
  // return, as within train_epoch(). Throws `lost` where they cannot.
  virtual void regroup_after(const RankLost& lost) { throw RankLost(lost); }
  // Where shards have moved, the ranks that are there call it, each with its own from now on,
  // before they go on. It may be collective; a rank that is lost meanwhile may be its RankLost, and
  // it is called again.
  using OnShards = std::function<void(ShardRange own)>;
  virtual void on_shards(const OnShards& /*f*/) {}
};

}  // namespace ndtrain
