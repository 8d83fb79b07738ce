#include "framework/parallel/restarted_training.h"

#include <utility>

namespace ndtrain {

RestartedTraining::RestartedTraining(Training& first, Restart restart)
    : now_(&first), restart_(std::move(restart)) {}

void RestartedTraining::with_restarts(const std::function<void()>& call) {
  std::optional<RankLost> lost;
  for (;;) {
    try {
      if (lost) go_on_after(*std::exchange(lost, std::nullopt));
      return call();
    } catch (const RankLost& l) {
      lost = l;
    }
  }
}

void RestartedTraining::go_on_after(const RankLost& lost) {
  now_ = &restart_(lost);
  bring_up();
}

void RestartedTraining::go_on_by(Training& other) {
  now_ = &other;
  bool tried = false;  // what comes in its place is brought up when it does
  with_restarts([&] {
    if (!std::exchange(tried, true)) bring_up();
  });
}

// To where the training stands.
void RestartedTraining::bring_up() {
  if (saved_) now_->restore(*saved_);
  if (lr_factor_ != 1) now_->scale_lr(lr_factor_);
  if (reset_) now_->reset_optimizer();
}

// What the epoch gave is kept at once: ranks that are lost later take nothing along.
bool RestartedTraining::train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step) {
  bool whole = false;
  with_restarts([&] {
    whole = now_->train_epoch(data, result, on_step);
    saved_ = now_->checkpoint();
    reset_ = false;
  });
  return whole;
}

Evaluation RestartedTraining::evaluate(Dataset& data) {
  Evaluation e;
  with_restarts([&] { e = now_->evaluate(data); });
  return e;
}

const Model& RestartedTraining::model() {
  const Model* m = nullptr;
  with_restarts([&] { m = &now_->model(); });
  return *m;
}

Checkpoint RestartedTraining::checkpoint() {
  Checkpoint c;
  with_restarts([&] { c = now_->checkpoint(); });
  return c;
}

void RestartedTraining::restore(const Checkpoint& c) {
  saved_ = c;
  reset_ = false;
  with_restarts([&] { now_->restore(c); });
}

void RestartedTraining::scale_lr(double factor) {
  lr_factor_ = factor;
  with_restarts([&] { now_->scale_lr(factor); });
}

void RestartedTraining::reset_optimizer() {
  reset_ = true;
  with_restarts([&] { now_->reset_optimizer(); });
}

}  // namespace ndtrain
