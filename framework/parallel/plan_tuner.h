// Changes the plan of a training between steps: to that of a schedule that goes by times, when
// these have been measured; or to other sizes of buckets, until the best is found.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/parallel/bucket_tuner.h"
#include "framework/parallel/collective_costs.h"
#include "framework/parallel/exchange_sync.h"
#include "framework/parallel/schedules/schedules.h"
#include "framework/parallel/simulate.h"
#include "framework/parallel/timed_sync.h"

namespace ndtrain {

// What steps took since the plan was last changed, beside what was to be expected.
struct ExchangeReport {
  int64_t steps = 0;  // that are measured; 0: too few
  // Medians, of the rank that computes longest.
  int slowest_rank = -1;
  double step_s = 0, computing_s = 0, exposed_s = 0;
  CommPlan plan;
  // Where the plan was made from measured times, at rank 0.
  std::optional<CostProfile> costs = {};
  StepPrediction predicted = {};
};

// All ranks of the exchange make the same calls; what the first of them, rank 0 below, decides all
// do between the same two steps. The bytes of the training do not depend on it. Not thread-safe.
class PlanTuner {
 public:
  struct Options {
    // Where it goes by times, these are measured; or whose sizes of buckets are tried. Else the
    // first plan stays.
    std::string schedule = {};
    ScheduleOptions plan = {};
    std::optional<BucketTuner::Options> buckets = {};
    CollectiveCostOptions collectives = {};
    // Steps that are measured, after some that are not: together no more than a tenth of the
    // run's, but kLeastSteps at least.
    int warmup = 5, steps = 50;
    // Of rank 0: what is to be told to people; report(), as soon as all of its steps are measured.
    std::function<void(const std::string& line)> say = {};
    std::function<void(const ExchangeReport& report)> timed = {};
  };
  static constexpr int kLeastSteps = 3;
  static constexpr int64_t kShareOfRun = 10;  // one of so many steps is for measuring

  // Where a training is, the same on all ranks.
  struct Place {
    int64_t step = 0;            // done in all, from 1 on: of the training, not of this process
    int64_t left = 0;            // of the run
    int64_t steps_of_epoch = 1;  // the last of which may have fewer rows
  };

  // Of ranks that have shards [first_shards[r], first_shards[r + 1]). `sizes` are those of the
  // parameters' slots, see sizes_of(); `timed` stands in front of `sync`. Keeps references.
  PlanTuner(ExchangeSync& sync, TimedSync& timed, Communicator& communicator,
            std::vector<int> first_shards, CostProfile sizes, Options options, Clock& clock);

  // Steps follow from now on: the time before is not theirs.
  void go_on() { step_began_ = clock_.monotonic(); }
  // Collective: nothing else is under way but what the step has left.
  void after_step(const Place& at);

  // Collective, between steps. Flushes.
  const ExchangeReport& report();

 private:
  enum class Phase : uint8_t { kNew, kMeasuring, kTrying, kTiming, kSettled };

  bool is_first() const { return communicator_.rank() == group_.front(); }
  void say(const std::string& line) const;
  void begin(const Place& at);
  bool begin_measuring(const Place& at);
  bool begin_trying(const Place& at);
  void follow_times(const Place& at);
  void try_next(const Place& at);
  void change_size();
  void change_plan();
  void settle(int warmup, const Place& at);
  void take_report();

  ExchangeSync& sync_;
  TimedSync& timed_;
  Communicator& communicator_;
  const RankGroup group_;
  const std::vector<int> first_shards_;
  CostProfile costs_;  // measured, when they are
  Options options_;
  Clock& clock_;
  Phase phase_ = Phase::kNew;
  int64_t until_ = 0;                    // the step that ends measuring, timing
  std::optional<BucketTuner> sizes_;     // rank 0's
  int64_t tried_ = 0;                    // steps
  std::chrono::nanoseconds step_began_;  // or the ones before had ended
  bool measured_ = false;
  ExchangeReport report_;
};

}  // namespace ndtrain
