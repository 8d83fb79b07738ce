#include <algorithm>

#include "framework/pipeline/schedules/instruction_list.h"
#include "framework/pipeline/schedules/schedules.h"

namespace ndtrain {
namespace {

// The order of one rank within a mini-batch. A pass is of one of its stages and one micro-batch;
// they are counted through whole groups, and those of micro-batches that the last group lacks are
// left out, which makes nobody wait for more.
class Passes {
 public:
  Passes(const PipeShape& shape, int rank) : shape_(shape), ranks_(shape.ranks()), rank_(rank) {}

  int64_t count() const {
    const int64_t groups = (shape_.micro_batches + ranks_ - 1) / ranks_;
    return groups * ranks_ * shape_.chunks;
  }
  // So many forward passes are in front of the first backward pass, besides its own.
  int64_t ahead() const {
    const int64_t to_the_last = ranks_ - 1 - rank_;
    if (shape_.chunks == 1) return to_the_last;
    return 2 * to_the_last + (shape_.chunks - 1) * ranks_;
  }
  bool is_left_out(int64_t pass) const { return micro_batch(pass) >= shape_.micro_batches; }
  int64_t micro_batch(int64_t pass) const {
    return pass / (ranks_ * shape_.chunks) * ranks_ + pass % ranks_;
  }
  int forward_stage(int64_t pass) const { return rank_ + chunk(pass) * static_cast<int>(ranks_); }
  int backward_stage(int64_t pass) const {
    return rank_ + (shape_.chunks - 1 - chunk(pass)) * static_cast<int>(ranks_);
  }

 private:
  int chunk(int64_t pass) const {
    return static_cast<int>(pass % (ranks_ * shape_.chunks) / ranks_);
  }

  const PipeShape& shape_;
  const int64_t ranks_;
  const int rank_;
};

// Calls forward(pass) and backward(pass) in the order of the rank.
template <typename Forward, typename Backward>
void in_order(const Passes& passes, Forward forward, Backward backward) {
  int64_t next = 0;
  for (int64_t back = 0; back < passes.count(); ++back) {
    for (; next < passes.count() && next <= back + passes.ahead(); ++next) {
      if (!passes.is_left_out(next)) forward(next);
    }
    if (!passes.is_left_out(back)) backward(back);
  }
}

class Interleaved final : public PipelineSchedule {
 public:
  std::string_view name() const override { return "interleaved"; }
  bool synchronous() const override { return true; }
  int delay(const PipeShape&, int /*stage*/) const override { return 0; }

  std::vector<Instruction> instructions(const PipeShape& shape, int rank) const override {
    InstructionList list(shape, rank);
    const Passes passes(shape, rank);
    for (int64_t t = 0; t < shape.mini_batches; ++t) {
      const int64_t first = t * shape.micro_batches;
      in_order(
          passes,
          [&](int64_t pass) {
            list.forward(passes.forward_stage(pass), first + passes.micro_batch(pass), t);
          },
          [&](int64_t pass) {
            list.backward(passes.backward_stage(pass), first + passes.micro_batch(pass), t);
          });
      // Not earlier, where other ranks would wait for what comes behind it.
      for (int stage = rank; stage < shape.stages; stage += shape.ranks()) list.update(stage, t);
    }
    return list.flushed();
  }

  int64_t most_in_flight(const PipeShape& shape, int stage) const override {
    validate(shape);
    const Passes passes(shape, shape.rank_of(stage));
    int64_t in_flight = 0, most = 0;
    in_order(
        passes,
        [&](int64_t pass) {
          if (passes.forward_stage(pass) == stage) most = std::max(most, ++in_flight);
        },
        [&](int64_t pass) {
          if (passes.backward_stage(pass) == stage) --in_flight;
        });
    return most;
  }
};

}  // namespace

std::unique_ptr<PipelineSchedule> interleaved_schedule() { return std::make_unique<Interleaved>(); }

}  // namespace ndtrain
