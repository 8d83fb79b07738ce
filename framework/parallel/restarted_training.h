// A training by ranks that cannot go on without one of them: others take its place, and redo what
// has been done since the last epoch ended.
#pragma once

#include <functional>
#include <optional>

#include "framework/comm/communicator.h"
#include "framework/train/training.h"

namespace ndtrain {

// No call of it is a RankLost. Between epochs it keeps a checkpoint, in memory. One thread.
class RestartedTraining final : public Training {
 public:
  // `restart` gives what goes on after the loss, which has done nothing yet; it may end the one
  // before. Both are references to what outlives this or that.
  using Restart = std::function<Training&(const RankLost& lost)>;
  RestartedTraining(Training& first, Restart restart);

  // After a loss the epoch is begun anew, or where it was when this training stopped in it.
  bool train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step = {}) override;
  Evaluation evaluate(Dataset& data) override;
  const Model& model() override;
  Checkpoint checkpoint() override;
  void restore(const Checkpoint& c) override;
  int64_t epoch() const override { return now_->epoch(); }
  int64_t batch() const override { return now_->batch(); }
  void scale_lr(double factor) override;
  void reset_optimizer() override;

  // From here on by `other`, which has done nothing yet, as after a loss; between epochs, where
  // nothing is lost. The one before is over.
  void go_on_by(Training& other);
  // For what is done with the training besides: repeats it after a loss.
  void with_restarts(const std::function<void()>& call);

 private:
  void go_on_after(const RankLost& lost);
  void bring_up();

  Training* now_;
  const Restart restart_;
  std::optional<Checkpoint> saved_;  // none: nothing has been done
  double lr_factor_ = 1;
  bool reset_ = false;  // the optimizer, since `saved_`
};

}  // namespace ndtrain
