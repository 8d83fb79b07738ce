#include "framework/parallel/data_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "framework/core/log.h"
#include "framework/parallel/between_ranks.h"
#include "framework/parallel/plan_by_sizes.h"

namespace ndtrain {
namespace {

std::string text_of(const RankGroup& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

void say_who_goes_on(const RankGroup& before, const RankGroup& now, const Trainer::Position& from,
                     bool moments_are_lost) {
  RankGroup lost;
  std::ranges::set_difference(before, now, std::back_inserter(lost));
  const std::string to = fmt::format("epoch {}, step {}", from.counts.epoch + 1, from.counts.step);
  const std::string who = text_of(now) + (now.size() == 1 ? " goes on" : " go on");
  if (!moments_are_lost) return log::warn("{} from {}", who, to);
  log::warn("the moments of {} are gone: {} from the {}", text_of(lost), who,
            from.optimizer_steps > 0 ? "checkpoint at " + to : "beginning");
}

}  // namespace

DataParallel::DataParallel(Model model, std::vector<std::string> trainable, const Device& device,
                           TrainerConfig config, std::unique_ptr<Communicator> communicator,
                           const Options& options)
    : options_(options),
      shards_(config.shards),
      communicator_(std::move(communicator)),
      clock_(options.clock ? *options.clock : system_clock()),
      trace_(options.trace ? std::make_unique<RankTrace>() : nullptr) {
  if (options.regroup && options.exchange.native && !device.shares_host_memory()) {
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
    if (shard_s_.empty()) {
      shares.push_back(options_.shares.empty() ? 1 : options_.shares[static_cast<size_t>(r)]);
    } else {
      shares.push_back(shard_s_.at(r));
    }
  }
  first_shards_ =
      shard_s_.empty() ? shards_of_ranks(shards_, shares) : fastest_shards(shards_, shares);
  return own_shards();
}

ShardRange DataParallel::own_shards() const {
  const RankGroup members = communicator_->members();
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
  const bool measure = options_.measure_shares && shard_s_.empty();
  share_tuner_ = measure
                     ? std::make_unique<ShareTuner>(*timed_, *communicator_, first_shards_,
                                                    ShareTuner::Options{.say = options_.tuning.say})
                     : nullptr;
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
      const int64_t ended = steps_ended();
      if (const std::optional<Checkpoint> back = regroup(lost)) throw WentBack(*back);
      if (whole && steps_before_ == ended) return *whole;  // with all that are left
      whole.reset();
    }
  }
}

bool DataParallel::train_on(Dataset& data, EpochResult& result, const OnStep& on_step) {
  for (bool moves = true; moves;) {
    moves = false;
    tuner_->go_on();
    const bool whole = trainer_->train_epoch(data, result, [&](int64_t done, int64_t total) {
      if (options_.regroup) remember();
      stop_asked_ = stop_asked_ || (on_step && !on_step(done, total));
      if (stop_asked_) sync_->ask_to_stop();
      if (trace_) trace_->add(timed_->take_spans(), communicator_->take_trace());
      if (sync_->is_stopped()) return false;
      const int64_t epochs = trainer_->config().epochs;
      moves = tune({.step = epoch() * total + done,
                    .left = (epochs - epoch() % epochs) * total - done,
                    .steps_of_epoch = total});
      return !moves;
    });
    if (options_.regroup) remember();
    if (moves) take_shares();
    if (whole) return true;
  }
  return false;
}

// Whether shards are to be moved before the next step.
bool DataParallel::tune(const PlanTuner::Place& at) {
  if (!share_tuner_) {
    tuner_->after_step(at);
    return false;
  }
  share_tuner_->after_step(at);
  if (!share_tuner_->done()) return false;
  const RankGroup members = communicator_->members();
  const std::vector<double> shard_s = share_tuner_->shard_s();
  share_tuner_.reset();
  for (size_t r = 0; r < shard_s.size(); ++r) shard_s_[members[r]] = shard_s[r];
  measured_after_ = steps_ended();
  return !shard_s.empty();
}

// All updates are done here, and on all ranks.
void DataParallel::take_shares() {
  const int64_t steps = steps_ended();
  const Trainer::Position from = trainer_->position();
  trainer_->go_on(from, share_out(),
                  [&](const Trainer::Shared& shared) { return make_sync(shared); });
  steps_before_ = steps;
  positions_ = {{steps, from}};
  say_shares();
  if (on_shards_) on_shards_(own_shards());
}

void DataParallel::say_shares() const {
  const std::vector<RankShare> shares = measured_shares();
  if (communicator_->rank() == 0 && options_.tuning.say && !shares.empty()) {
    options_.tuning.say(text_of(shares));
  }
}

std::vector<RankShare> DataParallel::measured_shares() const {
  std::vector<RankShare> shares;
  if (shard_s_.empty()) return shares;
  const RankGroup members = communicator_->members();
  for (size_t r = 0; r < members.size(); ++r) {
    shares.push_back({.rank = members[r],
                      .shards = first_shards_[r + 1] - first_shards_[r],
                      .shard_s = shard_s_.at(members[r])});
  }
  return shares;
}

std::string DataParallel::trace() {
  timed_->flush();
  trace_->add(timed_->take_spans(), communicator_->take_trace());
  return trace_->collect(*communicator_, clock_);
}

bool DataParallel::can_regroup(const RankLost& lost) const {
  return options_.regroup && !lost.stalled && (!shards_moments() || options_.saved);
}

// One loss after the other, where more come meanwhile.
std::optional<Checkpoint> DataParallel::regroup(RankLost lost) {
  std::optional<Checkpoint> back;
  for (;;) {
    if (std::optional<Checkpoint> c = agree_and_go_on(lost)) back = std::move(c);
    if (!on_shards_) return back;
    try {
      on_shards_(own_shards());
      return back;
    } catch (const RankLost& another) {
      lost = another;
    }
  }
}

// What was gone back to, where moments are lost; else a rank has the updates of a step only when
// the others have those of the step before, so that it is at most one step ahead of where all of
// them go on.
std::optional<Checkpoint> DataParallel::agree_and_go_on(const RankLost& lost) {
  const RankGroup before = communicator_->members();
  Regrouping::Agreement agreed;
  std::optional<Checkpoint> back;
  for (std::optional<RankLost> why = lost; why;) {
    if (!can_regroup(*why)) throw RankLost(*why);
    log::warn("{}", why->what());
    why.reset();
    agreed = communicator_->regroup(steps_before_ + sync_->completed());
    if (!shards_moments()) break;
    try {
      back = share_saved();
    } catch (const RankLost& another) {
      why = another;
    }
  }
  // Where some rank may not have heard of the others', all measure anew.
  if (agreed.step <= measured_after_) shard_s_.clear();
  const ShardRange own = share_out();
  const auto make = [&](const Trainer::Shared& shared) { return make_sync(shared); };
  if (back) {
    trainer_->go_on(*back, own, make);
  } else {
    const Trainer::Position from = positions_.at(agreed.step);
    undo_->take_back(from.optimizer_steps);
    trainer_->go_on(from, own, make);
  }
  steps_before_ = regrouped_after_ = agreed.step;
  const Trainer::Position from = trainer_->position();
  positions_ = {{agreed.step, from}};
  ++regrouped_;
  say_who_goes_on(before, agreed.members, from, back.has_value());
  say_shares();
  return back;
}

// What rank 0 has saved, on all ranks.
Checkpoint DataParallel::share_saved() {
  const int first = communicator_->members().front();
  const bool ours = communicator_->rank() == first;
  return parse_checkpoint(
             broadcast(*communicator_, first, ours ? checkpoint_bytes(options_.saved()) : ""))
      .or_throw();
}

// A rank that returns from here knows that the lowest one has its moments, too, and that all have
// kept what this gave them before: nobody goes back behind that.
Checkpoint DataParallel::checkpoint() {
  if (!options_.regroup || !shards_moments() || !options_.saved) return trainer_->checkpoint();
  try {
    ndtrain::barrier(*communicator_);
    Checkpoint c = trainer_->checkpoint();
    const int first = communicator_->members().front();
    try {
      (void)broadcast(*communicator_, first, "");
    } catch (const RankLost&) {  // who leads has all of it, and hears of the loss again
      if (communicator_->rank() != first) throw;
    }
    return c;
  } catch (const RankLost& lost) {
    throw WentBack(regroup(lost).value());
  }
}

const ExchangeReport& DataParallel::exchange_report() {
  // Others have asked for it before, and do not ask again.
  if (regrouped_after_ == steps_ended())
    throw RankLost("no step was done since ranks regrouped", {});
  return tuner_->report();
}

// Where the training stands now.
void DataParallel::remember() {
  const int64_t steps = steps_ended();
  positions_[steps] = trainer_->position();
  positions_.erase(positions_.begin(), positions_.lower_bound(steps - 1));
}

void DataParallel::barrier() {
  for (;;) {
    try {
      return ndtrain::barrier(*communicator_);
    } catch (const RankLost& lost) {
      remember();
      (void)regroup(lost);
    }
  }
}

void DataParallel::regroup_after(const RankLost& lost) {
  remember();
  if (const std::optional<Checkpoint> back = regroup(lost)) throw WentBack(*back);
}

}  // namespace ndtrain
