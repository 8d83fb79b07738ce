// A GradientSync for slow links (StellaTrain, Lim et al., SIGCOMM'24): of each tensor every rank
// sends a few elements of its gradient, and keeps the rest for the next step.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/parallel/step_reports.h"
#include "framework/sparse/optimizers/sparse_optimizer.h"
#include "framework/sparse/sync/error_feedback.h"
#include "framework/sparse/sync/sparse_exchange.h"
#include "framework/train/trainer.h"

namespace ndtrain {

struct SparseSyncOptions {
  std::string compressor = "threshold-v16";
  CompressorOptions compressing = {};
  double drop = 0.99;  // elements_to_send()
  // Of the first epochs, one each; then `drop`.
  std::vector<double> first_drops = {};
  // Of a rank's gradients (error_feedback.h), in place of the optimizer's, which is SGD without
  // any.
  double momentum = 0;
  DType wire = DType::kF32;  // or kF16, kBF16: what rounding leaves is sent later
  uint64_t seed = 0;         // of compressors that draw
  // A step computes with what all steps have made of the parameters but the last so many before it.
  int staleness = 0;
  SparseOptimizerOptions optimizer = {};
};

// Of Deep Gradient Compression (Lin et al., ICLR 2018): in the first four epochs a quarter, a
// sixteenth, 1/64 and .4 % of the elements travel, and at most 1 - drop of them ever.
SparseSyncOptions deep_gradient_compression(double momentum, double drop = 0.999);

// Each rank sends its selection of each tensor to all others; all add up these in the order of the
// ranks and take the same step, so that they have the same parameters, bit for bit. Where all
// elements are sent, by up to three ranks of a shard each, it is the step of ExchangeSync, whose
// sums are those of a tree. With a staleness S what a step has sent is exchanged and added up
// beside the next S steps: W(t + 1) = W(t) - u(g(W(t - S))). A step in which some rank's gradient
// is not finite is left out on all. In memory of the host. After a RankLost it is of no more use.
class SparseSync final : public GradientSync {
 public:
  // Of the communicator's members, of which the r-th has shards [first_shards[r], first_shards[r +
  // 1]). Keeps references. Throws Error where these, or the options, do not go together.
  SparseSync(const Trainer::Shared& shared, Communicator& communicator,
             std::vector<int> first_shards, const SparseSyncOptions& options = {});

  // Before the steps of that epoch, counted from 0.
  void begin_epoch(int64_t epoch);
  void begin(const HyperParameters& hyper) override;
  bool follows_the_run() const override { return false; }
  void add_up_statistics() override { reports_.add_up_statistics(); }
  void share(std::span<ShardReport> reports) override;
  void backward_done() override;
  void skip() override {}
  void flush() override;

  // As ExchangeSync's: all ranks do one more step, and are stopped then.
  void ask_to_stop() { stop_ = true; }
  bool is_stopped() const { return stopped_; }

  const ErrorFeedback& feedback() const { return feedback_; }
  int64_t left_out() const { return left_out_; }  // steps, for gradients that are not finite
  int64_t steps() const { return steps_; }        // others
  int64_t sent_bytes() const { return exchange_.sent_bytes(); }  // of gradients, to each other rank
  double exposed_s() const { return exposed_s_; }                // waiting for others, in all

  // Gives up what is under way, for which the communicator is left: after it nothing but the end.
  void abandon() { exchange_.abandon(); }

  // What is kept from step to step besides parameters and moments, of this rank; when flushed.
  std::map<std::string, Tensor> state() const;
  void restore(const std::map<std::string, Tensor>& state);
  void forget();  // all of it: as of a training that begins

 private:
  std::span<const float> add_up_own(const ParameterSlot& slot) const;
  void apply_oldest();
  void count_elements(double drop);

  Trainer::Shared shared_;
  Communicator& communicator_;
  const SparseSyncOptions options_;
  StepReports reports_;
  ErrorFeedback feedback_;
  SparseOptimizer optimizer_;
  SparseOptimizer::Worker worker_;
  std::vector<int64_t> count_;  // of elements that a rank sends of each slot
  HyperParameters hyper_;
  std::deque<std::optional<HyperParameters>> pending_;  // steps; none: it is left out
  int64_t left_out_ = 0, steps_ = 0;
  double exposed_s_ = 0;
  bool stop_ = false, stopped_ = false;
  SparseExchange exchange_;  // ends first
};

}  // namespace ndtrain
