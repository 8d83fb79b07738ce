// Gradients are exchanged between ranks as a plan says; each rank updates all parameters, or, with
// a sharded optimizer, its slice of each bucket, and the ranks then exchange parameters.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/parallel/breakdown.h"
#include "framework/parallel/comm_plan.h"
#include "framework/parallel/norm_exchange.h"
#include "framework/parallel/step_reports.h"
#include "framework/parallel/step_undo.h"
#include "framework/runtime/stream_mark.h"
#include "framework/train/trainer.h"

namespace ndtrain {

struct ExchangeOptions {
  bool shard_optimizer = false;  // whatever plan is followed
  // Or kBF16: gradients are rounded on their way, so that the bytes depend on the number of ranks;
  // on all ranks they are the same. Parameters, statistics and moments travel as f32.
  DType wire = DType::kF32;
  // Sums and gathers of buckets are those of the transport's library (CommOp::native): as for
  // kBF16, with which it does not go together. On a device whose memory is not the host's nothing
  // else is possible, and running statistics are the library's sums, too.
  bool native = false;
  Breakdown only = Breakdown::kWhole;  // else every rank ends up with parameters of its own
  RankGroup group = {};                // that exchange; none: the communicator's members
  // What an update of a range does, where it is not the parameters that an optimizer replaces.
  std::function<void(ParameterRange range, const HyperParameters& hyper, float* gradients)> apply =
      {};
};

// The sums are those of a tree over all shards, so that the bytes depend neither on the plan nor on
// the number of ranks. Ranks call it alike; a rank that is lost is a RankLost of whatever waits for
// it first. In memory of the host, or, by a library that collects there, of the device: a sum then
// waits on the device for the bucket's gradients, and for nothing that is computed behind them.
//
// Where gradients are clipped (OptimizerConfig::clip_norm) nothing is updated before the norm of
// all sums is known. With a sharded optimizer a rank keeps the moments of its slices alone, and
// Optimizer::state() is collective; slices are updated when it is certain that the step is applied,
// so its gathers follow all sums, whatever the plan's order is.
class ExchangeSync final : public GradientSync {
 public:
  // Of the group, of which the r-th has shards [first_shards[r], first_shards[r +
  // 1]). Keeps references. Throws Error where validate() does, these do not fit `shared`, gradients
  // are clipped and a bucket does not begin and end at multiples of ParameterSpace::kAlign, plan
  // and options do not go together, the memory of the device is not where the ranks exchange, or
  // it is a device's and some rank's shards do not add up to one sum.
  ExchangeSync(const Trainer::Shared& shared, Communicator& communicator, CommPlan plan,
               std::vector<int> first_shards, const ExchangeOptions& options = {});

  void begin(const HyperParameters& hyper) override;
  void before_read(size_t slot, ndt_stream* stream) override;
  void gradient_ready(size_t slot, ndt_stream* stream) override;
  void add_up_statistics() override { reports_.add_up_statistics(); }
  void share(std::span<ShardReport> reports) override;
  void backward_done() override;
  void skip() override;
  void flush() override;

  // Between two steps: flushes, and exchanges as `plan` says from the next one on. Throws Error as
  // the constructor does, and then nothing has changed.
  void change_plan(CommPlan plan);
  const CommPlan& plan() const { return plan_; }     // as it is followed, with the options
  const RankGroup& group() const { return group_; }  // that exchange

  // Takes effect in the reports of the next step, on all ranks alike.
  void ask_to_stop() { stop_ = true; }
  bool is_stopped() const { return stopped_; }

  // From now on what updates replace is kept there: a reference.
  void keep_in(StepUndo& undo) { undo_ = &undo; }
  // Steps that have ended, applied or left out; and of these those whose updates are done here.
  int64_t ended() const { return ended_; }
  int64_t completed() const;

  double exposed_s() const { return communicator_.waited_s(); }  // in all, by waiting for others
  double clip_exposed_s() const override { return clip_exposed_s_; }

 private:
  using Op = Communicator::Op;
  // A bucket in one step.
  struct Exchange {
    Op sum = 0, last = 0;   // what takes its gradients; what completes it; 0: nothing does
    size_t missing = 0;     // slots whose gradients are not there yet
    bool follows = false;   // `last` is released as soon as its turn may come
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

  int ranks() const { return static_cast<int>(group_.size()); }
  bool on_device() const { return !shared_.device.shares_host_memory(); }
  void check_memory() const;
  bool clips() const { return shared_.optimizer.config().clip_norm > 0; }
  CommPlan as_followed(CommPlan plan) const;
  void follow(CommPlan plan);
  void keep_moments();
  CommOp op_for(PlannedOp::Kind kind, int bucket) const;
  void enqueue(const std::vector<PlannedOp>& call, bool gathers_follow);
  bool begins_late(const PlannedOp& op) const;
  void gradients_are_there(Exchange& e);
  void wait_for(Op op);
  void release_up_to(size_t bucket);
  double norm_of_sums();
  void update_slices();
  void update(size_t bucket);
  void end_step(bool applied);

  Trainer::Shared shared_;
  Communicator& communicator_;
  CommPlan plan_;
  const std::vector<int> first_shards_;
  const ExchangeOptions options_;
  const RankGroup group_;
  const size_t place_;                // of this rank in it
  std::optional<NormExchange> norm_;  // where gradients are clipped
  double clip_exposed_s_ = 0;
  std::vector<ParameterRange> kept_;                // whose moments are here
  std::vector<Span> buckets_of_;                    // of each slot
  std::vector<std::unique_ptr<StreamMark>> marks_;  // of buckets, on a device: their gradients
  Tensor gradients_on_host_;                        // there, for the norm
  StepReports reports_;                             // a flag asks to stop
  bool stop_ = false, stopped_ = false;
  StepUndo* undo_ = nullptr;
  int64_t ended_ = 0;
  Step now_, before_;  // the step that runs; the one whose updates come when they are needed
};

}  // namespace ndtrain
