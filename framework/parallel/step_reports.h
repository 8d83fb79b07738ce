// What ranks tell one another of a step besides gradients: sums of running statistics, what its
// shards report, and flags of each rank.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/train/trainer.h"

namespace ndtrain {

// Subtrees' sums of this rank, of which the operation takes a range.
CommOp sum_op(std::string name, CommOp::Kind kind, const RankGroup& group,
              const std::vector<int>& first_shards, std::span<float* const> sums,
              ParameterRange range);

// Of the group, of which the r-th has shards [first_shards[r], first_shards[r + 1]). Keeps
// references. Ranks call it alike. Throws Error where these do not fit.
class StepReports {
 public:
  StepReports(const Trainer::Shared& shared, Communicator& communicator, RankGroup group,
              std::vector<int> first_shards);

  // Of a step, which takes its turn here.
  void enqueue();
  // These two wait. As a GradientSync's.
  void add_up_statistics();
  void share(std::span<ShardReport> reports, uint8_t flags);
  uint8_t flags() const { return flags_; }  // that some rank had, in the last share()

 private:
  int64_t begin_of(size_t rank) const;

  Trainer::Shared shared_;
  Communicator& communicator_;
  const RankGroup group_;
  const std::vector<int> first_shards_;
  const size_t place_;          // of this rank in the group
  std::vector<float> reports_;  // of each rank its shards', and its flags
  uint8_t flags_ = 0;
  Communicator::Op statistics_ = 0, report_ = 0;
};

}  // namespace ndtrain
