// A GradientSync of ranks over slow links: it has steps under way, and on each rank a state of its
// own besides parameters and moments.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/tensor.h"
#include "framework/sparse/control/rate_instruction.h"
#include "framework/sparse/control/telemetry.h"
#include "framework/train/gradient_sync.h"
#include "framework/train/varying_order.h"

namespace ndtrain {

// What a controller of batches and drop (rate_controller.h) has come to.
struct RatesNow {
  int64_t decisions = 0;    // that were put in force, of these ranks
  RateInstruction decided;  // the last one, in a dry run too; before any, what there was at first
  double link_mbps = 0;     // 0: not known yet
};

// All ranks make the same calls. When flushed, all of them have the same parameters, bit for bit.
// After a RankLost it is of no more use.
class SlowLinkSync : public GradientSync {
 public:
  // Before the steps of that epoch, counted from 0. Flushes.
  virtual void begin_epoch(int64_t epoch) = 0;
  // Sizes of steps from begin_epoch() on, where it decides them (varying_order.h); none: it does
  // not. `room`: rows of this rank that there is memory for.
  virtual BatchSizes batch_sizes(std::function<int64_t()> /*room*/) { return {}; }
  // Whether steps are under way between two steps, so that a training ends and is saved only where
  // it is flushed.
  virtual bool runs_ahead() const = 0;
  // Whether share() fills in the reports of other ranks; if not, a rank knows those of its own
  // shards alone.
  virtual bool shares_reports() const = 0;

  // Once some rank has asked, is_stopped() is true on all of them when flushed after one more step.
  virtual void ask_to_stop() = 0;
  virtual bool is_stopped() const = 0;
  // Gives up what is under way, for which the communicator is left: after it nothing but the end.
  virtual void abandon() = 0;
  // After a RankLost: on return nothing of it uses the communicator, which is not left.
  virtual void end_after_loss() {}

  // What this rank keeps from step to step besides the parameters; when flushed.
  virtual std::map<std::string, Tensor> state() const = 0;
  // Also of a training by other ranks: then compressors that go by pieces begin anew. Throws Error
  // where it does not fit.
  virtual void restore(const std::map<std::string, Tensor>& state) = 0;
  // All of it: as of a training that begins.
  virtual void forget() = 0;
  // What of it is the same on all ranks: some of them have lost theirs.
  virtual void forget_what_is_shared() = 0;

  // What it decided of sizes of steps, and what else they go by, since the last call: lines.
  virtual std::vector<std::string> take_log() { return {}; }

  // In all.
  virtual int64_t steps() const = 0;       // but for those left out
  virtual int64_t left_out() const = 0;    // steps, for gradients that are not finite
  virtual int64_t sent_bytes() const = 0;  // of gradients, to each other rank
  virtual double exposed_s() const = 0;    // waiting for others
  // Of the step before the last that began, where it is measured: times and rates of this rank.
  virtual Telemetry last_step() const { return {}; }
  // None without a controller, or where it decides nothing (RateControlOptions::one_site_waits).
  virtual std::optional<RatesNow> rates() const { return {}; }
};

}  // namespace ndtrain
