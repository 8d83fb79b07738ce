#include "framework/train/switched_training.h"

#include <utility>

namespace ndtrain {

SwitchedTraining::SwitchedTraining(Training& first, int64_t from, std::function<Training&()> next)
    : now_(&first), from_(from), next_(std::move(next)) {}

bool SwitchedTraining::train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step) {
  if (next_ && now_->epoch() >= from_) {
    const Checkpoint all = now_->checkpoint();
    now_ = &std::exchange(next_, nullptr)();
    now_->restore(all);
    now_->scale_lr(lr_factor_);
  }
  return now_->train_epoch(data, result, on_step);
}

void SwitchedTraining::scale_lr(double factor) {
  lr_factor_ = factor;
  now_->scale_lr(factor);
}

}  // namespace ndtrain
