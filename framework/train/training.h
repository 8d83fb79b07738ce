// A training as jobs drive it: by one process (Trainer), or by others that behave the same seen
// from outside.
#pragma once

#include <functional>

#include "framework/core/error.h"
#include "framework/graph/model.h"
#include "framework/train/checkpoint.h"
#include "framework/train/dataset.h"
#include "framework/train/evaluate.h"

namespace ndtrain {

struct EpochResult {
  int64_t epoch = 0;  // from 0
  double loss = 0;    // mean over the rows, as trained (with smoothing and dropout)
  double top1 = 0;
  double top5 = 0;  // NaN: not known, gone on in the middle from an earlier version's checkpoint
  double lr = 0;    // of the last step
};

// What a training has done since it was saved is lost, and it stands there again: go on with
// epoch().
struct WentBack : Error {
  explicit WentBack(const Checkpoint& to)
      : Error("gone back to epoch ", to.epoch + 1, ", step ", to.step),
        best_top1(to.best_top1),
        best_epoch(to.best_epoch) {}
  double best_top1;  // as they were saved
  int64_t best_epoch;
};

// What may fail throws Error. By ranks a training's epochs and checkpoint() may be a WentBack. One
// thread.
class Training {
 public:
  // Called after every step with (steps done, steps of the epoch); returning false stops there.
  using OnStep = std::function<bool(int64_t done, int64_t total)>;
  virtual ~Training() = default;

  // Runs the rest of the current epoch. False when on_step stopped it; checkpoint() then says
  // where.
  virtual bool train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step) = 0;
  virtual Evaluation evaluate(Dataset& data) = 0;
  virtual const Model& model() = 0;  // with the current parameters and running statistics

  virtual Checkpoint checkpoint() = 0;
  virtual void restore(const Checkpoint& c) = 0;  // throws Error when it does not fit

  virtual int64_t epoch() const = 0;  // the current one, from 0
  virtual int64_t batch() const = 0;  // rows of a step

  // Of the following steps: their learning rate is the schedule's times `factor`; the optimizer has
  // no past.
  virtual void scale_lr(double factor) = 0;
  virtual void reset_optimizer() = 0;
};

}  // namespace ndtrain
