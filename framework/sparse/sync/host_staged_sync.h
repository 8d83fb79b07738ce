// A SlowLinkSync of memory of the host, for a device with memory of its own.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/runtime/stream_mark.h"
#include "framework/sparse/sync/slow_link_sync.h"
#include "framework/train/trainer.h"

namespace ndtrain {

// Parameters, gradients and running statistics lie on the device, where steps are computed, and
// once more in memory of the host, where the sync has them. A slot's gradient is copied behind
// what makes it, on a stream of its own, through pinned memory; its values are copied back ahead
// of what reads them, once the sync says that they are those to compute with. So the optimizer of
// `there` is one of the host (TrainerConfig::update_device). Passes of a step are not told apart:
// the host is ahead of the device in them.
class HostStagedSync final : public SlowLinkSync {
 public:
  using MakeSync = std::function<std::unique_ptr<SlowLinkSync>(const Trainer::Shared& shared)>;

  // Of the Trainer that does `own` of `shards`; `host` is a device that shares the host's memory.
  // Keeps references. Throws Error as `make` does, and where the device's streams have no events.
  HostStagedSync(const Trainer::Shared& there, ShardRange own, int shards, const Device& host,
                 const MakeSync& make);
  ~HostStagedSync() override;

  void begin_epoch(int64_t epoch) override;
  BatchSizes batch_sizes(std::function<int64_t()> room) override {
    return sync_->batch_sizes(std::move(room));
  }
  bool runs_ahead() const override { return sync_->runs_ahead(); }
  bool shares_reports() const override { return sync_->shares_reports(); }
  void begin(const HyperParameters& hyper) override;
  void before_read(size_t slot, ndt_stream* stream) override;
  void gradient_ready(size_t slot, ndt_stream* stream) override;
  bool follows_the_run() const override { return sync_->follows_the_run(); }
  void add_up_statistics() override;
  void share(std::span<ShardReport> reports) override;
  void backward_done() override { sync_->backward_done(); }
  void skip() override { sync_->skip(); }
  void flush() override;
  double clip_exposed_s() const override { return sync_->clip_exposed_s(); }

  void ask_to_stop() override { sync_->ask_to_stop(); }
  bool is_stopped() const override { return sync_->is_stopped(); }
  void abandon() override { sync_->abandon(); }
  void end_after_loss() override { sync_->end_after_loss(); }

  std::map<std::string, Tensor> state() const override { return sync_->state(); }
  // These come when parameters of the device were set.
  void restore(const std::map<std::string, Tensor>& state) override;
  void forget() override;
  void forget_what_is_shared() override { sync_->forget_what_is_shared(); }

  std::vector<std::string> take_log() override { return sync_->take_log(); }
  int64_t steps() const override { return sync_->steps(); }
  int64_t left_out() const override { return sync_->left_out(); }
  int64_t sent_bytes() const override { return sync_->sent_bytes(); }
  double exposed_s() const override { return sync_->exposed_s(); }
  Telemetry last_step() const override { return sync_->last_step(); }
  std::optional<RatesNow> rates() const override { return sync_->rates(); }

 private:
  void take_from_device();
  void take_gradients();
  void send_values();
  void take_statistics();
  void send_statistics();

  Trainer::Shared there_;
  ParameterSpace parameters_;  // here, as the following
  ShardSums gradients_;
  std::unique_ptr<RunningStatistics> statistics_;  // null: the model has none
  Tensor from_device_, to_device_;                 // as the parameters lie, pinned
  StreamMark copies_;                              // gradients, behind what makes them
  bool is_copying_ = false;                        // there
  bool has_gradients_ = false;                     // of this step, here
  std::vector<size_t> ready_;                      // slots, in the order in which they were
  std::unique_ptr<SlowLinkSync> sync_;
};

}  // namespace ndtrain
