#include "framework/sparse/sync/sparse_training.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "framework/core/clock.h"
#include "framework/core/log.h"
#include "framework/parallel/between_ranks.h"
#include "framework/train/shards.h"

namespace ndtrain {

SparseTraining::SparseTraining(Model model, std::vector<std::string> trainable,
                               const Device& device, TrainerConfig config,
                               std::unique_ptr<Communicator> communicator, Options options)
    : options_(std::move(options)), communicator_(std::move(communicator)) {
  std::vector<double> shares = options_.shares;
  const auto ranks = static_cast<size_t>(communicator_->ranks());
  if (options_.drain_every < 1)
    throw Error("drained every ", options_.drain_every, " steps: 1 or more");
  if (shares.empty()) shares.assign(ranks, 1);
  if (shares.size() != ranks) throw Error(shares.size(), " shares of ", ranks, " ranks");
  const std::vector<int> first_shards = shards_of_ranks(config.shards, shares);
  const auto rank = static_cast<size_t>(communicator_->rank());
  own_ = {first_shards[rank], first_shards[rank + 1]};
  config.own_shards = own_;
  trainer_ = std::make_unique<Trainer>(
      std::move(model), std::move(trainable), device, config, [&](const Trainer::Shared& shared) {
        auto sync =
            std::make_unique<SparseSync>(shared, *communicator_, first_shards, options_.sync);
        sync_ = sync.get();
        return sync;
      });
}

SparseTraining::~SparseTraining() {
  if (sync_) sync_->abandon();
}

bool SparseTraining::train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step) {
  if (restored_) say_what_is_lost();
  changed_ = true;
  sync_->begin_epoch(epoch());
  const std::chrono::nanoseconds begun = system_clock().monotonic();
  int64_t steps = 0;
  const bool whole = trainer_->train_epoch(data, result, [&](int64_t done, int64_t total) {
    ++steps;
    stop_asked_ = stop_asked_ || (on_step && !on_step(done, total));
    if (stop_asked_) sync_->ask_to_stop();
    const bool drains =
        options_.sync.staleness == 0 || done == total || done % options_.drain_every == 0;
    if (drains) sync_->flush();
    return !drains || !sync_->is_stopped();
  });
  if (whole && steps > 0) {
    const std::chrono::duration<double> took = system_clock().monotonic() - begun;
    step_s_ = took.count() / static_cast<double>(steps);
  }
  return whole;
}

// Whoever has saved a checkpoint before has done so when it comes here again: of the positions
// before that one nothing is needed.
Checkpoint SparseTraining::checkpoint() {
  Checkpoint c = trainer_->checkpoint();
  const StateFiles::Position at{c.epoch, c.step};
  if (!options_.files || !changed_) return c;
  options_.files->write(at, sync_->state());
  barrier(*communicator_);
  options_.files->keep_only({kept_.value_or(at), at});
  kept_ = at;
  changed_ = false;
  return c;
}

void SparseTraining::restore(const Checkpoint& c) {
  trainer_->restore(c);
  const StateFiles::Position at{c.epoch, c.step};
  sync_->forget();
  const auto state = options_.files ? options_.files->read(at) : std::nullopt;
  if (state) sync_->restore(*state);
  kept_ = state ? std::optional(at) : std::nullopt;
  changed_ = !state;
  lost_ = !state && c.optimizer_steps > 0;
  restored_ = true;
}

void SparseTraining::reset_optimizer() {
  trainer_->reset_optimizer();
  sync_->forget();
  changed_ = true;
}

// Collective; the lowest rank says it.
void SparseTraining::say_what_is_lost() {
  const std::vector<std::string> of_ranks = ndtrain::gather(*communicator_, lost_ ? "lost" : "");
  restored_ = false;
  if (communicator_->rank() != 0) return;
  for (size_t r = 0; r < of_ranks.size(); ++r) {
    if (of_ranks[r].empty()) continue;
    log::warn(
        "rank {} has no file of what it had not sent of its gradients yet: that is lost, and the "
        "training goes on without it",
        r);
  }
}

}  // namespace ndtrain
