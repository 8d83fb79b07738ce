// Ranks that train by themselves for some steps, and then agree: local SGD (Stich, "Local SGD
// converges fast and communicates little", ICLR 2019), DiLoCo (Douillard et al., arXiv:2311.08105)
// and its streaming form (arXiv:2501.18512).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/sparse/local/fragments.h"
#include "framework/sparse/local/outer_exchange.h"
#include "framework/sparse/sync/site_all_reduce.h"
#include "framework/sparse/sync/site_gradient.h"
#include "framework/sparse/sync/sites.h"
#include "framework/sparse/sync/slow_link_sync.h"
#include "framework/train/local_sync.h"
#include "framework/train/trainer.h"

namespace ndtrain {

struct LocalStepsOptions {
  int64_t inner_steps = 50;  // H: a fragment agrees behind so many steps
  double outer_lr = 0.7, outer_momentum = 0.9;
  int fragments = 1;    // of the parameters, each in turn (fragments.h)
  int64_t overlap = 0;  // steps until what a fragment has sent is applied; below H
  double mixing = 0.5;  // then: the share of the values that were trained meanwhile, 0 to below 1
  ValueCoding wire = ValueCoding::kF32;
  // Of outer gradients; none: all of them travel.
  std::string compressor = {};
  CompressorOptions compressing = {};
  double drop = 0.97;  // elements_to_send()
  // Of what is chosen so, or travels as integers; of no consequence for what is learnt.
  GatherRoute route = GatherRoute::kDirect;
  uint64_t seed = 0;            // of compressors that draw
  std::vector<int> sites = {};  // of each rank (sites.h): one takes steps together
};

// The mean of the ranks' parameters.
LocalStepsOptions averaging(int64_t inner_steps);

// Each rank takes the optimizer's steps on the rows of its own shards, or of those of its site,
// whose ranks add up whole gradients. The outer gradient of a
// fragment is what its values were when it agreed last, less what they are, the mean over the sites
// by their numbers of shards; the outer optimizer takes its step from what they were, and what it
// gives is what all go on with, or mixes with what they have by then. Outer gradients travel whole,
// or a few elements of them, or as integers: then a site keeps what it did not send for the next
// time. When flushed everything
// agrees, unmixed; steps are counted from there. Running statistics are a site's own until then,
// and their mean then. Moments stay a site's own. A step whose gradient is not finite at a site is
// left out there. In memory of the host.
class LocalSteps final : public SlowLinkSync {
 public:
  // Of the communicator's members, of which the r-th has shards [first_shards[r], first_shards[r +
  // 1]). Keeps references. Throws Error where these, or the options, do not go together.
  LocalSteps(const Trainer::Shared& shared, Communicator& communicator,
             const std::vector<int>& first_shards, const LocalStepsOptions& options);

  void begin(const HyperParameters& hyper) override;
  bool follows_the_run() const override { return sites_.members().size() > 1; }
  void gradient_ready(size_t slot, ndt_stream* /*stream*/) override { gradient_.ready(slot); }
  void add_up_statistics() override;
  void share(std::span<ShardReport> /*reports*/) override { gradient_.end(exposed_s_); }
  void backward_done() override;
  void skip() override {}
  void flush() override;

  void begin_epoch(int64_t /*epoch*/) override { flush(); }
  bool runs_ahead() const override { return true; }
  bool shares_reports() const override { return false; }
  void ask_to_stop() override { stop_ = true; }
  bool is_stopped() const override { return stopped_; }
  void abandon() override { exchange_->abandon(); }
  void end_after_loss() override { exchange_->end_after_loss(); }

  std::map<std::string, Tensor> state() const override;
  void restore(const std::map<std::string, Tensor>& state) override;
  void forget() override;
  void forget_what_is_shared() override;

  int64_t steps() const override { return steps_; }
  int64_t left_out() const override { return left_out_; }
  int64_t sent_bytes() const override { return exchange_->sent_bytes(); }
  double exposed_s() const override { return exposed_s_; }

 private:
  struct Sent {
    const Fragment* fragment = nullptr;
    int64_t due = 0;  // behind this step
  };
  void exchange_what_is_due();
  void send(const Fragment& fragment, int64_t due);
  void apply_oldest(double mixing);
  void add_up_in_site(std::span<float> values);
  void average_statistics();
  std::span<float> values(ParameterRange range) const;
  static std::span<float> part(std::vector<float>& of, ParameterRange range);

  Trainer::Shared shared_;
  Communicator& communicator_;
  const LocalStepsOptions options_;
  const std::vector<Fragment> fragments_;
  const Sites sites_;
  const float times_own_;  // the shards of all sites, in times this one's
  SiteGradient gradient_;
  LocalSync inner_;
  std::vector<float> agreed_, velocity_;  // as the parameters lie; no momentum, no velocity
  std::vector<float> outer_;              // gradients, then their sums
  std::unique_ptr<OuterExchange> exchange_;
  std::deque<Sent> sent_;
  int64_t since_ = 0;  // steps begun since all agreed
  int64_t left_out_ = 0, steps_ = 0;
  double exposed_s_ = 0;
  bool stop_ = false, stopped_ = false;
};

}  // namespace ndtrain
