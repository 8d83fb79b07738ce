#include "framework/parallel/plan_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "framework/parallel/between_ranks.h"
#include "framework/parallel/comm_plan_json.h"
#include "framework/parallel/measured_costs.h"
#include "framework/parallel/plan_by_sizes.h"

namespace ndtrain {
namespace {

double mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

PlanTuner::PlanTuner(ExchangeSync& sync, TimedSync& timed, Communicator& communicator,
                     std::vector<int> first_shards, CostProfile sizes, Options options,
                     Clock& clock)
    : sync_(sync),
      timed_(timed),
      communicator_(communicator),
      group_(sync.group()),
      first_shards_(std::move(first_shards)),
      costs_(std::move(sizes)),
      options_(std::move(options)),
      clock_(clock),
      step_began_(clock.monotonic()) {}

void PlanTuner::say(const std::string& line) const {
  if (is_first() && options_.say) options_.say(line);
}

void PlanTuner::after_step(const Place& at) {
  const bool may_be_short = at.steps_of_epoch > 1 && at.step % at.steps_of_epoch == 0;
  if (phase_ == Phase::kNew) {
    begin(at);
  } else if (phase_ == Phase::kMeasuring && at.step >= until_) {
    follow_times(at);
  } else if (phase_ == Phase::kTrying && !may_be_short) {
    try_next(at);
  } else if (phase_ == Phase::kTiming && at.step >= until_) {
    take_report();
    phase_ = Phase::kSettled;
    if (is_first() && options_.timed) options_.timed(report_);
  }
  step_began_ = clock_.monotonic();
}

void PlanTuner::begin(const Place& at) {
  const bool by_times = !options_.schedule.empty() && !goes_by_sizes(options_.schedule);
  if (options_.buckets ? begin_trying(at) : by_times && begin_measuring(at)) return;
  settle(static_cast<int>(std::min<int64_t>(options_.warmup, at.left / kShareOfRun)), at);
}

bool PlanTuner::begin_measuring(const Place& at) {
  const int64_t most = options_.warmup + options_.steps;
  const int64_t all =
      std::clamp<int64_t>(at.left / kShareOfRun, std::min<int64_t>(kLeastSteps + 1, most), most);
  if (all >= at.left) {
    say(
        fmt::format("{} steps are too few to measure the times that {} goes by: the plan stays "
                    "that of ddp",
                    at.left, options_.schedule));
    return false;
  }
  // As many of them as of all that could be.
  const int64_t warmup = (options_.warmup * all + most - 1) / most;
  timed_.flush();
  CollectiveCostOptions collectives = options_.collectives;
  collectives.most_elements = std::min(collectives.most_elements, costs_.parameter_count());
  const double spent_s =
      measure_collectives(communicator_, first_shards_, collectives, clock_, costs_, group_);
  say(
      fmt::format("{}: measured collectives in {:.1f} s (an all-reduce takes {:.3g} ms + {:.3g} "
                  "ms/MB); steps are timed for {}, after {} to warm up",
                  options_.schedule, spent_s, costs_.all_reduce.alpha_s * 1e3,
                  costs_.all_reduce.beta_s_per_byte * 1e9, all - warmup, warmup));
  timed_.restart(static_cast<int>(warmup), static_cast<int>(all - warmup));
  until_ = at.step + all;
  phase_ = Phase::kMeasuring;
  return true;
}

// Rank 0 makes the plan from what all have measured.
void PlanTuner::follow_times(const Place& at) {
  timed_.flush();
  const std::vector<StepTimes> all = gather_times(communicator_, timed_.times(), group_);
  measured_ = set_slowest_times(all, costs_);
  if (!measured_) {
    say(options_.schedule +
        ": no step had rows in all shards of a rank, so that none was timed; "
        "the plan stays that of ddp");
  } else {
    costs_.source = "measured here";
    change_plan();
    if (is_first()) {
      const StepPrediction p = simulate(sync_.plan(), costs_);
      say(
          fmt::format("{}: buckets: {}, operations: {}; predicted {:.4f} s a step, {:.4f} s of it "
                      "exposed communication; no plan takes less than {:.4f} s",
                      options_.schedule, sync_.plan().buckets.size(), sync_.plan().ops.size(),
                      p.step_s, p.exposed_s, p.bound_s));
    }
  }
  settle(1, at);
}

bool PlanTuner::begin_trying(const Place& at) {
  const BucketTuner::Options& of = *options_.buckets;
  const int64_t ends_of_epochs = at.steps_of_epoch == 1 ? 0 : at.left / at.steps_of_epoch + 1;
  if (at.left - ends_of_epochs <= int64_t{of.trials} * of.steps) {
    say(
        fmt::format("{} steps are too few to try {} sizes of buckets for {} steps each: {:.3g} MiB "
                    "stay",
                    at.left, of.trials, of.steps, mib(options_.plan.bucket_bytes)));
    return false;
  }
  if (is_first()) sizes_.emplace(Rng(0, "buckets"), of);
  change_size();
  phase_ = Phase::kTrying;
  return true;
}

void PlanTuner::try_next(const Place& at) {
  const BucketTuner::Options& of = *options_.buckets;
  const auto took = std::chrono::duration<double>(clock_.monotonic() - step_began_).count();
  if (sizes_) sizes_->step_took(took);
  if (++tried_ % of.steps != 0) return;
  change_size();
  if (tried_ < int64_t{of.trials} * of.steps) return;
  if (sizes_) {
    say(fmt::format("{}: of {} sizes of buckets that of {:.3g} MiB is the fastest, {:.4f} s a step",
                    options_.schedule, of.trials, mib(sizes_->bucket_bytes()),
                    sizes_->best_step_s()));
  }
  settle(1, at);
}

void PlanTuner::change_size() {
  timed_.flush();
  if (sizes_) options_.plan.bucket_bytes = sizes_->bucket_bytes();
  change_plan();
}

// Rank 0's on all ranks.
void PlanTuner::change_plan() {
  const std::string plan =
      is_first() ? to_json(make_comm_plan(options_.schedule, costs_, options_.plan)) : "";
  sync_.change_plan(parse_comm_plan(broadcast(communicator_, group_.front(), plan, group_)));
}

void PlanTuner::settle(int warmup, const Place& at) {
  phase_ = Phase::kTiming;
  until_ = at.step + warmup + options_.steps;
  timed_.restart(warmup, options_.steps);
}

const ExchangeReport& PlanTuner::report() {
  if (phase_ != Phase::kSettled) take_report();
  return report_;
}

void PlanTuner::take_report() {
  timed_.flush();
  const std::vector<StepTimes> all = gather_times(communicator_, timed_.times(), group_);
  report_ = {.plan = sync_.plan()};
  if (const int place = slowest_rank(all); place >= 0) {
    const StepTimes& slowest = all[static_cast<size_t>(place)];
    report_.slowest_rank = group_[static_cast<size_t>(place)];
    report_.steps = slowest.steps;
    report_.computing_s = slowest.computing_s();
    report_.exposed_s = slowest.exposed_s;
    // Of epochs of one step, none follows another.
    const double parts_s = report_.computing_s + report_.exposed_s;
    report_.step_s = slowest.step_s > 0 ? slowest.step_s : parts_s;
  }
  if (measured_ && is_first()) {
    report_.costs = costs_;
    report_.predicted = simulate(sync_.plan(), costs_);
  }
}

}  // namespace ndtrain
