// A GradientSync for slow links (StellaTrain, Lim et al., SIGCOMM'24): of each tensor every rank
// sends a few elements of its gradient, and keeps the rest for the next step.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/parallel/step_reports.h"
#include "framework/sparse/optimizers/sparse_optimizer.h"
#include "framework/sparse/sync/error_feedback.h"
#include "framework/sparse/sync/rate_control.h"
#include "framework/sparse/sync/site_gradient.h"
#include "framework/sparse/sync/sites.h"
#include "framework/sparse/sync/slow_link_sync.h"
#include "framework/sparse/sync/sparse_exchange.h"
#include "framework/sparse/sync/step_clock.h"
#include "framework/sparse/sync/step_vote.h"
#include "framework/train/trainer.h"

namespace ndtrain {

struct SparseSyncOptions {
  std::string compressor = "threshold-v16";
  CompressorOptions compressing = {};
  double drop = 0.99;  // elements_to_send()
  // Of the first epochs, one each; then `drop`.
  std::vector<double> first_drops = {};
  // Of some parameters, by their names (drops.h), in place of `drop`; in the first epochs theirs if
  // that is less.
  std::vector<std::pair<std::string, double>> drops = {};
  // Of a rank's gradients (error_feedback.h), in place of the optimizer's, which is SGD without
  // any.
  double momentum = 0;
  // Each rank sends elements of one piece of each tensor alone, another at each step
  // (error_feedback.h).
  bool pieces = false;
  bool largest_of_sums = false;              // gTop-k (sparse_exchange.h)
  ValueCoding wire = ValueCoding::kF32;      // what rounding to others leaves is sent later
  GatherRoute route = GatherRoute::kDirect;  // of no consequence for what is learnt
  uint64_t seed = 0;                         // of compressors that draw
  // A step computes with what all steps have made of the parameters but the last so many before it.
  int staleness = 0;
  SparseOptimizerOptions optimizer = {};
  // Batches, and `drop`, follow what ranks, and links between sites, take (rate_controller.h); not
  // with `first_drops`, nor of signs.
  std::optional<RateControlOptions> control = {};
  // Of each rank (sites.h): a site sends what a rank would.
  std::vector<int> sites = {};
};

// Of Deep Gradient Compression (Lin et al., ICLR 2018): in the first four epochs a quarter, a
// sixteenth, 1/64 and .4 % of the elements travel, and at most 1 - drop of them ever.
SparseSyncOptions deep_gradient_compression(double momentum, double drop = 0.999);

// Each rank sends its selection of each tensor to all others; all add up these in the order of the
// ranks and take the same step, so that they have the same parameters, bit for bit. Ranks of a site
// are as one with all their shards: they add up whole gradients under the backward pass, each keeps
// what the site has not sent, and the first of them talks to other sites. Where all
// elements are sent, by up to three ranks of a shard each, it is the step of ExchangeSync, whose
// sums are those of a tree. With a staleness S what a step has sent is exchanged and added up
// beside the next S steps: W(t + 1) = W(t) - u(g(W(t - S))). A tensor takes its step where the next
// forward pass but S reads it first, so that what lies behind it may still be under way. A step in
// which some rank's gradient is not finite is left out on all. In memory of the host.
class SparseSync final : public SlowLinkSync {
 public:
  // Of the communicator's members, of which the r-th has shards [first_shards[r], first_shards[r +
  // 1]). Keeps references. Throws Error where these, or the options, do not go together.
  SparseSync(const Trainer::Shared& shared, Communicator& communicator,
             std::vector<int> first_shards, const SparseSyncOptions& options = {});

  void begin_epoch(int64_t epoch) override;
  BatchSizes batch_sizes(std::function<int64_t()> room) override;
  bool runs_ahead() const override { return options_.staleness > 0; }
  bool shares_reports() const override { return true; }
  void begin(const HyperParameters& hyper) override;
  void before_read(size_t slot, ndt_stream* stream) override;
  void forward_done() override;
  void gradient_ready(size_t slot, ndt_stream* /*stream*/) override { gradient_.ready(slot); }
  void add_up_statistics() override;
  void share(std::span<ShardReport> reports) override;
  void backward_done() override;
  void skip() override {}
  void flush() override;

  void ask_to_stop() override { vote_.ask_to_stop(); }
  bool is_stopped() const override { return vote_.is_stopped(); }
  void abandon() override { exchange_.abandon(); }
  void end_after_loss() override { exchange_.end_after_loss(); }

  std::map<std::string, Tensor> state() const override;
  void restore(const std::map<std::string, Tensor>& state) override;
  void forget() override;
  void forget_what_is_shared() override {
    optimizer_.forget();
    feedback_.forget_passes();
  }

  std::vector<std::string> take_log() override {
    return control_ ? control_->take_log() : std::vector<std::string>();
  }

  int64_t steps() const override { return steps_; }
  int64_t left_out() const override { return left_out_; }
  int64_t sent_bytes() const override { return exchange_.sent_bytes(); }
  double exposed_s() const override { return exposed_s_; }
  Telemetry last_step() const override;
  std::optional<RatesNow> rates() const override;

  const ErrorFeedback& feedback() const { return feedback_; }
  // None before the first epoch, or without SparseSyncOptions::control.
  const RateControl* control() const { return control_.get(); }

 private:
  void begin_control();
  bool passes_apart() const;
  void begin_oldest();
  void apply(size_t slot);
  void apply_oldest();
  void count_elements(double drop, bool is_first);

  Trainer::Shared shared_;
  Communicator& communicator_;
  const SparseSyncOptions options_;
  const Sites sites_;
  StepReports reports_;
  SiteGradient gradient_;
  StepVote vote_;
  StepClock clock_;
  std::function<int64_t()> room_;
  std::unique_ptr<RateControl> control_;
  ErrorFeedback feedback_;
  SparseOptimizer optimizer_;
  SparseOptimizer::Worker worker_;
  const std::vector<std::optional<double>> own_drops_;  // of each slot
  std::vector<int64_t> count_;                          // of elements that a site sends of each
  double counted_drop_ = 0;                             // of these
  const std::vector<int> first_shards_;
  HyperParameters hyper_;
  std::deque<std::optional<HyperParameters>> pending_;  // steps; none: it is left out
  std::vector<bool> to_apply_;                          // slots of the oldest, where it is due
  int64_t left_out_ = 0, steps_ = 0;
  double exposed_s_ = 0;
  double agreeing_s_ = 0;    // of that, for sums of this site and the round trip of a vote
  SparseExchange exchange_;  // ends first
};

}  // namespace ndtrain
