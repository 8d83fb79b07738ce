// How shards are shared out among unequal ranks: by what one takes each of them in the first steps.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/parallel/plan_tuner.h"
#include "framework/parallel/timed_sync.h"

namespace ndtrain {

struct RankShare {
  int rank = 0, shards = 0;
  double shard_s = 0;  // that a shard takes it, in a step
};

// "shares: rank 0 does 5 of 8 shards (0.41 s a shard), rank 1 3 (0.7 s)"
std::string text_of(std::span<const RankShare> shares);

// All ranks make the same calls, and come to the same. One thread.
class ShareTuner {
 public:
  struct Options {
    int steps = 10;  // that are timed, after the first one; no more than a tenth of the run's, but
                     // PlanTuner::kLeastSteps at least
    std::function<void(const std::string& line)> say = {};  // of rank 0: what people are told
  };

  // Of ranks that have shards [first_shards[r], first_shards[r + 1]). `timed` is theirs. Keeps the
  // references.
  ShareTuner(TimedSync& timed, Communicator& communicator, std::vector<int> first_shards,
             Options options);

  // Until it is done. Collective: nothing else is under way but what the step has left.
  void after_step(const PlanTuner::Place& at);
  bool done() const { return done_; }
  // Then: of each rank the seconds that a shard takes it, medians; none where this cannot be
  // measured, or would change nothing.
  const std::vector<double>& shard_s() const { return shard_s_; }

 private:
  void begin(const PlanTuner::Place& at);
  void leave(const std::string& why);
  void say(const std::string& line) const;

  TimedSync& timed_;
  Communicator& communicator_;
  const std::vector<int> first_shards_;
  const Options options_;
  int64_t until_ = -1;  // the step that ends measuring
  bool done_ = false;
  std::vector<double> shard_s_;
};

}  // namespace ndtrain
