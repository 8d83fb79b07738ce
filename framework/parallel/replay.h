// A training's steps with the arithmetic of its network left out: ranks sleep for as long as layers
// are computed, and really exchange gradients, add up and update. Shows what a schedule does with
// accelerators that this machine does not have.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/core/clock.h"
#include "framework/parallel/comm_plan.h"
#include "framework/parallel/cost_profile.h"
#include "framework/train/trainer.h"

namespace ndtrain {

// What computes layers one after the other. It is free when what it was given would be done, not
// when this thread woke up: what a sleep is too long, the next one is shorter.
class SleepingDevice {
 public:
  explicit SleepingDevice(Clock& clock) : clock_(clock), free_at_(clock.monotonic()) {}

  // Returns when it is done.
  void compute(double seconds);
  // Work of this thread that stands between layers, of which it waits `waited_s()`, in all, for
  // somebody else: so long, and as long as the work takes, nothing is computed.
  void run(const std::function<void()>& work, const std::function<double()>& waited_s);

 private:
  Clock& clock_;
  std::chrono::nanoseconds free_at_;
};

// Timers of this thread, and of those that it starts from now on, end when they should and not up
// to 50 us later.
void make_timers_exact();

struct ReplayResult {
  std::vector<double> step_s;  // from the beginning of a backward pass to the next
  double exposed_s = 0;        // of a step, waiting for other ranks: the mean
  uint64_t parameters = 0;     // XXH3 of their values at the end, which every plan gives
  double sent_bytes = 0;       // of a step, to each other rank: the mean; 0: not known
};

// One rank of several, all of which make the same calls. Gradients are numbers that depend on seed,
// shard, step and place; parameters begin with such. Keeps references. One thread.
class Replay {
 public:
  // Ranks have shards [first_shards[r], first_shards[r + 1]); a rank's are computed at once. The
  // layers of `costs` have multiples of ParameterSpace::kAlign elements. Throws Error where these
  // do not fit, or the device's memory is not the host's.
  Replay(const CostProfile& costs, std::vector<int> first_shards, const OptimizerConfig& optimizer,
         uint64_t seed, const Device& device, Communicator& communicator, Clock& clock);

  // An update's, a layer at a time, as this rank measures it.
  double optimizer_s_per_element();

  // What exchanges the gradients of a run, and what it says of itself, in all.
  struct Exchange {
    std::unique_ptr<GradientSync> sync;
    std::function<double()> waited_s;         // in the calls of a step, for other ranks
    std::function<double()> sent_bytes = {};  // to each other rank; none: not known
  };
  using MakeExchange = std::function<Exchange(const Trainer::Shared& shared)>;

  // Steps that are not timed, then some that are. Throws Error where the plan is none of these
  // costs, RankLost where a rank is, and Error where parameters differ between the ranks.
  ReplayResult run(const CommPlan& plan, int warmup, int steps);
  ReplayResult run(const MakeExchange& make, int warmup, int steps);

 private:
  struct Training;
  void step(Training& training, SleepingDevice& device, const std::function<void()>& at_backward);
  void give_gradient(Training& training, size_t slot) const;

  const CostProfile costs_;
  const std::vector<int> first_shards_;
  const OptimizerConfig optimizer_;
  const Device& device_;
  Communicator& communicator_;
  Clock& clock_;
  std::vector<float> noise_;
};

}  // namespace ndtrain
