// A step's gradient of a site: that of the shards of its ranks, the sum of which each of them has.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/sparse/sync/sites.h"
#include "framework/train/trainer.h"

namespace ndtrain {

// Ranks of a site make the same calls, in the Trainer's thread. Sums are whole and in f32: of each
// rank's partial sums from the left, then of ranks in the order of a tree (sum_tree.h). In memory
// of the host. Keeps references.
class SiteGradient {
 public:
  SiteGradient(const Trainer::Shared& shared, Communicator& communicator, const Sites& sites);

  // Of a step, whose sums take their turn here.
  void enqueue();
  // The slot's gradient is complete on this rank: sums travel under the backward pass.
  void ready(size_t slot);
  // So are all now; on return it lies in the first of the gradients' sums. Waits, and adds how
  // long. Throws RankLost.
  void end(double& waited_s);

 private:
  struct Bucket {
    ParameterRange range;
    size_t slots = 0, missing = 0;
    Communicator::Op sum = 0;
  };
  void add_up(const Bucket& bucket);

  Trainer::Shared shared_;
  Communicator& communicator_;
  const RankGroup members_;
  std::vector<Bucket> buckets_;    // from the last slots on
  std::vector<size_t> bucket_of_;  // slot
};

}  // namespace ndtrain
