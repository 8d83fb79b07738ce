// What the steps of a training take, layer by layer, by when its GradientSync is called.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/clock.h"
#include "framework/train/gradient_sync.h"

namespace ndtrain {

// Seconds of a step: medians over steps, by slots of the parameters.
struct StepTimes {
  int64_t steps = 0;  // these are of
  // A slot's forward pass lasts from when it is read to when another one is first read, the last
  // one's to the loss of the last shard; its backward pass from the gradient that is ready before.
  // What lies between the last gradient and the first reading, the rows of the next step included,
  // is the front slot's forward pass.
  std::vector<double> forward_s, backward_s;
  double optimizer_s = 0;  // applying updates
  double step_s = 0;       // from begin to begin; 0: no two steps followed each other
  double exposed_s = 0;    // of it, waiting for other ranks

  double passes_s() const;     // forward and backward, of all shards of the rank
  double computing_s() const;  // all but waiting
};

// Stands in front of another GradientSync. A step in which this rank has a shard without rows does
// not count. The clock may be any; one thread.
class TimedSync final : public GradientSync {
 public:
  // `slots` are named for spans. `waited_s` says how long `inner` has waited for others, in all.
  // Keeps the references.
  TimedSync(std::unique_ptr<GradientSync> inner, std::vector<std::string> slots,
            std::function<double()> waited_s, Clock& clock);

  void begin(const HyperParameters& hyper) override;
  void before_read(size_t slot, ndt_stream* stream) override;
  void forward_done() override;
  void gradient_ready(size_t slot, ndt_stream* stream) override;
  void add_up_statistics() override;
  void share(std::span<ShardReport> reports) override;
  void backward_done() override;
  void skip() override;
  void flush() override;
  double clip_exposed_s() const override { return inner_->clip_exposed_s(); }

  // Forgets: the next `warmup` steps do not count, the `most` steps after them do, if there are.
  void restart(int warmup, int most);
  // Of those that have ended: followed by another step, or by flush().
  StepTimes times() const;
  int64_t flushes() const { return flushes_; }  // in all; between them steps follow each other

  struct Span {
    std::string name;  // "forward conv1.weight", "backward …", "wait", "update"
    std::chrono::nanoseconds begun, ended;
  };
  void keep_spans(bool keep) { keeps_spans_ = keep; }
  std::vector<Span> take_spans() { return std::exchange(spans_, {}); }

 private:
  using Time = std::chrono::nanoseconds;
  struct Step {
    std::vector<double> forward_s, backward_s;
    double optimizer_s = 0, waited_s = 0, step_s = 0;
    bool whole = false;
  };
  struct Owner {  // of the time that passes
    bool backward;
    size_t slot;
  };

  size_t front() const { return slots_.size() - 1; }
  void add(double seconds);  // to the owner's
  void pass();               // what has passed since the last call is its owner's
  void end_step(double seconds);
  template <typename Call>
  void pass_on(bool updates, const Call& call);

  std::unique_ptr<GradientSync> inner_;
  const std::vector<std::string> slots_;
  const std::function<double()> waited_s_;
  Clock& clock_;
  int warmup_ = 0, most_ = 0;
  std::vector<Step> steps_;
  bool open_ = false;  // now_ has begun
  Step now_;
  std::vector<bool> read_;
  Owner owner_{false, 0};
  Time begun_{0}, last_{0};
  int64_t flushes_ = 0;
  bool keeps_spans_ = false;
  std::vector<Span> spans_;
};

}  // namespace ndtrain
