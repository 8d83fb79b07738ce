#include "framework/parallel/data_parallel.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "framework/core/log.h"
#include "framework/parallel/between_ranks.h"
#include "framework/parallel/plan_by_sizes.h"

namespace ndtrain {

DataParallel::DataParallel(Model model, std::vector<std::string> trainable, const Device& device,
                           TrainerConfig config, std::unique_ptr<Communicator> communicator,
                           const Options& options)
    : options_(options),
      shards_(config.shards),
      communicator_(std::move(communicator)),
      clock_(options.clock ? *options.clock : system_clock()),
      trace_(options.trace ? std::make_unique<RankTrace>() : nullptr) {
  if (options.regroup && !device.shares_host_memory()) {
    throw Error("ranks that compute on devices do not regroup");
  }
  config.own_shards = share_out();
  trainer_ = std::make_unique<Trainer>(
      std::move(model), std::move(trainable), device, config, [&](const Trainer::Shared& shared) {
        if (options.regroup) {
          undo_ = std::make_unique<StepUndo>(shared.parameters, shared.optimizer);
        }
        return make_sync(shared);
      });
}

DataParallel::~DataParallel() = default;

// Shards among the ranks that are there; this one's.
ShardRange DataParallel::share_out() {
  const RankGroup members = communicator_->members();
  if (!options_.shares.empty() && std::ssize(options_.shares) != communicator_->ranks()) {
    throw Error(options_.shares.size(), " shares of ", communicator_->ranks(), " ranks");
  }
  std::vector<double> shares;
  for (const int r : members) {
    shares.push_back(options_.shares.empty() ? 1 : options_.shares[static_cast<size_t>(r)]);
  }
  first_shards_ = shards_of_ranks(shards_, shares);
  const auto place = std::ranges::find(members, communicator_->rank()) - members.begin();
  const auto first = first_shards_.begin() + place;
  return {*first, *(first + 1)};
}

// With what is the same on all ranks: a plan that was tuned may have come to some of them only.
std::unique_ptr<GradientSync> DataParallel::make_sync(const Trainer::Shared& shared) {
  auto sync = std::make_unique<ExchangeSync>(
      shared, *communicator_, options_.plan(shared.parameters), first_shards_, options_.exchange);
  sync_ = sync.get();
  if (undo_) sync_->keep_in(*undo_);
  if (stop_asked_) sync_->ask_to_stop();
  std::vector<std::string> slots;
  for (const ParameterSlot& slot : shared.parameters.slots()) slots.push_back(slot.name);
  auto timed = std::make_unique<TimedSync>(
      std::move(sync), std::move(slots), [this] { return sync_->exposed_s(); }, clock_);
  timed_ = timed.get();
  timed_->keep_spans(options_.trace);
  const auto ranks = static_cast<int>(communicator_->members().size());
  tuner_ = std::make_unique<PlanTuner>(*sync_, *timed_, *communicator_, first_shards_,
                                       sizes_of(shared.parameters, ranks), options_.tuning, clock_);
  return timed;
}

bool DataParallel::train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step) {
  if (!options_.regroup) return train_on(data, result, on_step);
  remember();
  std::optional<bool> whole;
  for (;;) {
    try {
      if (!whole) whole = train_on(data, result, on_step);
      // No rank goes back behind the end of the epoch, once one has gone on from there.
      timed_->flush();
      ndtrain::barrier(*communicator_);
      undo_->forget();
      return *whole;
    } catch (const RankLost& lost) {
      if (!can_regroup(lost)) throw;
      log::warn("{}", lost.what());
      const int64_t ended = steps_before_ + sync_->ended();
      regroup();
      if (whole && steps_before_ == ended) return *whole;  // with all that are left
      whole.reset();
    }
  }
}

bool DataParallel::train_on(Dataset& data, EpochResult& result, const OnStep& on_step) {
  tuner_->go_on();
  const bool whole = trainer_->train_epoch(data, result, [&](int64_t done, int64_t total) {
    if (options_.regroup) remember();
    stop_asked_ = stop_asked_ || (on_step && !on_step(done, total));
    if (stop_asked_) sync_->ask_to_stop();
    if (trace_) trace_->add(timed_->take_spans(), communicator_->take_trace());
    if (sync_->is_stopped()) return false;
    const int64_t epochs = trainer_->config().epochs;
    tuner_->after_step({.step = epoch() * total + done,
                        .left = (epochs - epoch() % epochs) * total - done,
                        .steps_of_epoch = total});
    return true;
  });
  if (options_.regroup) remember();
  return whole;
}

std::string DataParallel::trace() {
  timed_->flush();
  trace_->add(timed_->take_spans(), communicator_->take_trace());
  return trace_->collect(*communicator_, clock_);
}

// The moments of a sharded optimizer are lost with the rank that kept them.
bool DataParallel::can_regroup(const RankLost& lost) const {
  return options_.regroup && !lost.stalled && !sync_->plan().shard_optimizer;
}

// A rank has the updates of a step only when the others have those of the step before, so that it
// is at most one step ahead of where all of them go on.
void DataParallel::regroup() {
  const Regrouping::Agreement agreed = communicator_->regroup(steps_before_ + sync_->completed());
  const Trainer::Position from = positions_.at(agreed.step);
  undo_->take_back(from.optimizer_steps);
  const ShardRange own = share_out();
  trainer_->go_on(from, own, [&](const Trainer::Shared& shared) { return make_sync(shared); });
  steps_before_ = agreed.step;
  positions_ = {{agreed.step, from}};
  ++regrouped_;
  std::string who;
  for (const int r : agreed.members) who += (who.empty() ? "" : ", ") + std::to_string(r);
  log::warn("ranks {} go on from epoch {}, step {}", who, from.epoch + 1, from.step);
}

// Where the training stands now.
void DataParallel::remember() {
  const int64_t steps = steps_before_ + sync_->ended();
  positions_[steps] = trainer_->position();
  positions_.erase(positions_.begin(), positions_.lower_bound(steps - 1));
}

void DataParallel::barrier() {
  for (;;) {
    try {
      return ndtrain::barrier(*communicator_);
    } catch (const RankLost& lost) {
      if (!can_regroup(lost)) throw;
      remember();
      regroup();
    }
  }
}

}  // namespace ndtrain
