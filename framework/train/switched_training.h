// A training that goes on in another way from an epoch on, as by stages after ranks that share rows
// (AshPipe's "switch parallel"): what it has is moved by the names of parameters.
#pragma once

#include <functional>

#include "framework/train/training.h"

namespace ndtrain {

// One thread. Of all calls that throw, those of the training that it is at the time.
class SwitchedTraining final : public Training {
 public:
  // `first` has the epochs before `from`. Then `next` is called, which may end `first`, and gives
  // what has the rest. Both are references to what outlives this or that.
  SwitchedTraining(Training& first, int64_t from, std::function<Training&()> next);

  bool train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step) override;
  Evaluation evaluate(Dataset& data) override { return now_->evaluate(data); }
  const Model& model() override { return now_->model(); }
  Checkpoint checkpoint() override { return now_->checkpoint(); }
  void restore(const Checkpoint& c) override { now_->restore(c); }
  int64_t epoch() const override { return now_->epoch(); }
  int64_t batch() const override { return now_->batch(); }
  void scale_lr(double factor) override;
  void reset_optimizer() override { now_->reset_optimizer(); }

 private:
  Training* now_;
  const int64_t from_;
  std::function<Training&()> next_;  // null: it is that one
  double lr_factor_ = 1;
};

}  // namespace ndtrain
