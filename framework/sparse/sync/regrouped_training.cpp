#include "framework/sparse/sync/regrouped_training.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "framework/core/log.h"
#include "framework/parallel/between_ranks.h"

namespace ndtrain {

RegroupedTraining::RegroupedTraining(Model model, std::vector<std::string> trainable,
                                     const Device& device, const TrainerConfig& config,
                                     std::unique_ptr<Communicator> communicator,
                                     SlowLinkTraining::Options options,
                                     SlowLinkTraining::MakeSync make_sync, OnLoss on_loss)
    : model_(std::move(model)),
      trainable_(std::move(trainable)),
      device_(device),
      config_(config),
      options_(std::move(options)),
      make_sync_(std::move(make_sync)),
      on_loss_(std::move(on_loss)) {
  options_.on_drained = [this] { keep_position(); };
  make_training(std::move(communicator));
  positions_.push_back({.number = 0, .kept = training_->keep()});
}

RegroupedTraining::~RegroupedTraining() = default;

void RegroupedTraining::make_training(std::unique_ptr<Communicator> communicator) {
  training_ = std::make_unique<SlowLinkTraining>(model_, trainable_, device_, config_,
                                                 std::move(communicator), options_, make_sync_);
  training_->scale_lr(lr_factor_);
}

// A rank comes to the next position only with all others, each of which has kept this one before.
void RegroupedTraining::keep_position() {
  positions_.push_back({.number = positions_.back().number + 1, .kept = training_->keep()});
  if (positions_.size() > 2) positions_.pop_front();
}

// Between epochs: nobody goes back behind that.
void RegroupedTraining::keep_what_changed() {
  if (!std::exchange(changed_, false)) return;
  positions_.back().kept = training_->keep();
}

// An epoch that has ended on one rank has ended on all that are left, and what goes with its
// checkpoint is written: they have met behind it.
bool RegroupedTraining::train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step) {
  keep_what_changed();
  std::optional<bool> whole;
  for (;;) {
    try {
      if (!whole) {
        whole = training_->train_epoch(data, result, on_step);
        keep_position();
      }
      if (training_->gathered()) {
        barrier(communicator());
      } else {
        training_->gather();
      }
      return *whole;
    } catch (const RankLost& lost) {
      const int64_t reached = positions_.back().number;
      regroup(lost);
      if (whole && positions_.back().number == reached) {
        training_->count_as_gathered();
        return *whole;
      }
      whole.reset();
    }
  }
}

void RegroupedTraining::restore(const Checkpoint& c) {
  training_->restore(c);
  changed_ = true;
}

void RegroupedTraining::scale_lr(double factor) {
  lr_factor_ = factor;
  training_->scale_lr(factor);
}

void RegroupedTraining::reset_optimizer() {
  training_->reset_optimizer();
  changed_ = true;
}

Communicator& RegroupedTraining::communicator() {
  return communicator_ ? *communicator_ : training_->communicator();
}

void RegroupedTraining::gather() {
  try {
    training_->gather();
  } catch (const RankLost& lost) {
    regroup_after(lost);
  }
}

void RegroupedTraining::regroup_after(const RankLost& lost) {
  keep_what_changed();
  regroup(lost);
}

// One loss after the other, where more come meanwhile.
void RegroupedTraining::regroup(RankLost lost) {
  for (;;) {
    go_on_without(lost);
    if (!on_shards_) return;
    try {
      on_shards_(own_shards());
      return;
    } catch (const RankLost& another) {
      lost = another;
    }
  }
}

void RegroupedTraining::go_on_without(const RankLost& lost) {
  if (lost.stalled) throw RankLost(lost);
  log::warn("{}", lost.what());
  if (training_) {
    before_ = figures();
    file_ = training_->last_file();
    communicator_ = training_->take_communicator();
    training_.reset();
  }
  const RankGroup before = communicator_->members();
  const Regrouping::Agreement agreed = communicator_->regroup(positions_.back().number);
  while (!positions_.empty() && positions_.back().number > agreed.step) positions_.pop_back();
  if (positions_.empty() || positions_.back().number != agreed.step) {
    throw Error("ranks have agreed on position ", agreed.step, ", which this one does not have");
  }
  const SlowLinkTraining::Kept& kept = positions_.back().kept;
  make_training(std::move(communicator_));
  training_->go_on_from(kept, file_);
  ++regrouped_;
  Loss loss{.lost = {},
            .left = agreed.members,
            .epoch = kept.checkpoint.epoch,
            .step = kept.checkpoint.step};
  std::ranges::set_difference(before, agreed.members, std::back_inserter(loss.lost));
  if (on_loss_) on_loss_(loss);
}

SlowLinkTraining::Figures RegroupedTraining::figures() const {
  SlowLinkTraining::Figures f = training_->figures();
  f.add_earlier(before_);
  return f;
}

}  // namespace ndtrain
