// A training by ranks that rank 0 leads: whoever drives it, a job for instance, knows of one
// Training, and the other ranks do what it is told.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/parallel/ranked_training.h"

namespace ndtrain {

// The rows that are trained on, which rank 0 has, and of which the others need those of their
// shards. One thread.
class SharedRows {
 public:
  virtual ~SharedRows() = default;
  // Of rank 0: what says which rows are in use; "": none yet.
  virtual std::string description() const { return ""; }
  // Of the others: from now on it is these, which it may be already.
  virtual void take(const std::string& /*description*/) {}
  // Collective: each rank gets what it lacks of its shards' rows. Throws RankLost.
  virtual void exchange(Communicator& ranks, ShardRange own, int shards) = 0;
  // Of the others: those in use, of which rows of own shards can be fetched. Always the same
  // object.
  virtual Dataset& dataset() = 0;
};

// What rank 0 asks of the others next.
struct TrainingOrder {
  enum class Kind : uint8_t {
    kRows,            // other rows are in use from now on
    kTrain,           // one epoch of them
    kRestore,         // `bytes` are a checkpoint
    kScaleRate,       // `bytes` are the factor
    kResetOptimizer,  //
    kGather,          // see RankedTraining::gather()
    kPart,            // the training goes on by ranks that meet anew
    kEnd              // the training is over
  };
  uint64_t number = 0;  // counts up from 1
  Kind kind = Kind::kEnd;
  std::string bytes;

  std::string text() const;
  static TrainingOrder parse(const std::string& text);  // throws Error
};

// Where ranks regroup (RankedTraining), those that are left get the rows of their shards, and the
// order in force, again: a rank is at most one order behind rank 0. Else each call may be a
// RankLost.
class LeadingTraining final : public Training {
 public:
  // Rank 0's, whose checkpoint() is not collective once it is gathered(). Keeps a reference to
  // `rows`.
  LeadingTraining(std::unique_ptr<RankedTraining> training, SharedRows& rows);
  ~LeadingTraining() override;  // without end() the others have lost rank 0

  // Before train_epoch() on rows that are not those of the last one.
  void use_rows();
  // `data` is what use_rows() was called for.
  bool train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step = {}) override;
  Evaluation evaluate(Dataset& data) override { return gathered().evaluate(data); }
  const Model& model() override { return gathered().model(); }
  Checkpoint checkpoint() override { return gathered().checkpoint(); }
  void restore(const Checkpoint& c) override;
  int64_t epoch() const override { return training_->epoch(); }
  int64_t batch() const override { return training_->batch(); }
  void scale_lr(double factor) override;
  void reset_optimizer() override;
  // The others leave, for good or to meet again. What this one has stays.
  void end();
  void part();

 private:
  bool order(TrainingOrder::Kind kind, std::string bytes = {});
  void leave_by(TrainingOrder::Kind kind);
  RankedTraining& gathered();

  std::unique_ptr<RankedTraining> training_;
  SharedRows& rows_;
  TrainingOrder current_;
};

// Why another rank follows no longer: rank 0 has said so, or it was told to stop.
enum class FollowEnd : uint8_t { kOver, kParted, kStopped };

// Another rank: does what rank 0 asks, until it says that the training is over or that all part, or
// `stop` is true, which is asked while it waits and between steps. Throws RankLost where rank 0 is
// lost or goes on without this one.
FollowEnd follow(RankedTraining& training, SharedRows& rows,
                 const std::function<bool()>& stop = {});

}  // namespace ndtrain
