// Gradients are exchanged between ranks as a plan says, and each rank updates all parameters.
#pragma once

#include <vector>

#include "framework/comm/communicator.h"
#include "framework/parallel/comm_plan.h"
#include "framework/parallel/step_undo.h"
#include "framework/train/trainer.h"

namespace ndtrain {

// The sums are those of a tree over all shards, so that the bytes depend neither on the plan nor on
// the number of ranks. Ranks call it alike; a rank that is lost is a RankLost of whatever waits for
// it first. In memory of the host.
class ExchangeSync final : public GradientSync {
 public:
  // Of the communicator's members, of which the r-th has shards [first_shards[r], first_shards[r +
  // 1]), and of a plan without a sharded optimizer. Keeps references. Throws Error where validate()
  // does, or these do not fit `shared`.
  ExchangeSync(const Trainer::Shared& shared, Communicator& communicator, CommPlan plan,
               std::vector<int> first_shards);

  void begin(const HyperParameters& hyper) override;
  void before_read(size_t slot, ndt_stream* stream) override;
  void gradient_ready(size_t slot, ndt_stream* stream) override;
  void add_up_statistics() override;
  void share(std::span<ShardReport> reports) override;
  void backward_done() override;
  void skip() override;
  void flush() override;

  // Between two steps: flushes, and exchanges as `plan` says from the next one on. Throws Error as
  // the constructor does, and then nothing has changed.
  void change_plan(CommPlan plan);
  const CommPlan& plan() const { return plan_; }

  // Takes effect in the reports of the next step, on all ranks alike.
  void ask_to_stop() { stop_ = true; }
  bool is_stopped() const { return stopped_; }

  // From now on what updates replace is kept there: a reference.
  void keep_in(StepUndo& undo) { undo_ = &undo; }
  // Steps that have ended, applied or left out; and of these those whose updates are done here.
  int64_t ended() const { return ended_; }
  int64_t completed() const;

  double exposed_s() const { return communicator_.waited_s(); }  // in all, by waiting for others

 private:
  using Op = Communicator::Op;
  // A bucket in one step.
  struct Exchange {
    Op sum = 0, last = 0;   // what takes its gradients; what completes it
    size_t missing = 0;     // slots whose gradients are not there yet
    bool released = false;  // `last`, where it is not `sum`
    bool updated = false;
  };
  struct Step {
    HyperParameters hyper;
    std::vector<Exchange> buckets;
    bool applied = false;
  };
  // Buckets that a slot has elements of.
  struct Span {
    size_t begin, end;
  };

  void check(const CommPlan& plan) const;
  void follow(CommPlan plan);
  int64_t report_begin(size_t rank) const;
  CommOp op_for(const PlannedOp& planned) const;
  CommOp sum_of(std::string name, CommOp::Kind kind, std::span<float* const> sums,
                ParameterRange range) const;
  void enqueue(const std::vector<PlannedOp>& call);
  bool begins_late(const PlannedOp& op) const;
  void enqueue_reports();
  void release_up_to(size_t bucket);
  void update(size_t bucket);
  void end_step(bool applied);

  Trainer::Shared shared_;
  Communicator& communicator_;
  CommPlan plan_;
  const std::vector<int> first_shards_;
  const RankGroup group_;
  const size_t place_;            // of this rank in it
  std::vector<Span> buckets_of_;  // of each slot
  std::vector<float> reports_;    // of each rank its shards', and whether it asks to stop
  bool stop_ = false, stopped_ = false;
  Op statistics_ = 0, report_ = 0;
  StepUndo* undo_ = nullptr;
  int64_t ended_ = 0;
  Step now_, before_;  // the step that runs; the one whose updates come when they are needed
};

}  // namespace ndtrain
