// A step's gradient of a site: that of the shards of its ranks, the sum of which each of them has.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/sparse/sync/site_memory.h"
#include "framework/sparse/sync/sites.h"
#include "framework/train/trainer.h"

namespace ndtrain {

// Ranks of a site make the same calls, in the Trainer's thread. Sums are whole and in f32: of each
// rank's partial sums from the left, then of ranks in the order of a tree (sum_tree.h). Processes
// of one host add up in memory that they share (site_memory.h), others by messages, to the same
// bytes. In memory of the host. Keeps references.
class SiteGradient {
 public:
  // `shared_memory`: the directory for it; "": by messages anyway.
  SiteGradient(const Trainer::Shared& shared, Communicator& communicator, const Sites& sites,
               std::string shared_memory = HostMemory::kDirectory);

  // Of a step, whose sums take their turn here: operations that are enqueued later may be held up
  // until end(). The first time it waits for the others to share memory, and throws RankLost.
  void enqueue();
  // The slot's gradient is complete on this rank: sums travel under the backward pass.
  void ready(size_t slot);
  // So are all now; on return it lies in the first of the gradients' sums. Waits, and adds how
  // long. Nothing the second time. Throws RankLost.
  void end(double& waited_s);

 private:
  struct Bucket {
    ParameterRange range;
    size_t slots = 0, missing = 0;
    Communicator::Op sum = 0;       // or, in shared memory: all have laid down what they have,
    Communicator::Op added_up = 0;  // and have added up their parts
  };
  float* own(const Bucket& bucket) const;
  void add_up(const Bucket& bucket);
  void add_up_part(const Bucket& bucket);

  Trainer::Shared shared_;
  Communicator& communicator_;
  const RankGroup members_;
  const std::string shared_memory_;
  bool has_asked_ = false;  // for it
  std::unique_ptr<SiteMemory> memory_;
  std::vector<Bucket> buckets_;    // from the last slots on
  std::vector<size_t> bucket_of_;  // slot
  size_t parts_ = 0;               // of so many buckets, the first ones, this rank has added up its
  bool is_under_way_ = false;
};

}  // namespace ndtrain
