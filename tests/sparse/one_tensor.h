// What ranks make of gradients that a test gives them.
#pragma once

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include "framework/parallel/between_ranks.h"
#include "framework/train/trainer.h"
#include "tests/parallel/training_by_ranks.h"

namespace ndtrain::testing {

// One tensor of `kElements` on a rank, without a Trainer around it.
template <class Sync, class Options>
class OneTensorOf {
 public:
  static constexpr int64_t kElements = 1000, kRows = 20;

  OneTensorOf(Communicator& communicator, int rank, int ranks, const OptimizerConfig& optimizer,
              const Options& options, double rate = 1)
      : rate_(rate),
        parameters_(parameters()),
        optimizer_(optimizer, parameters_, cpu()),
        sums_(parameters_.size(), {rank, rank + 1}, ranks, cpu(), parameters_.gradients()),
        sync_({parameters_, optimizer_, sums_, nullptr, cpu()}, communicator,
              shards_of_ranks(ranks, std::vector<double>(static_cast<size_t>(ranks), 1)), options),
        rank_(rank),
        reports_(static_cast<size_t>(ranks)) {}

  void step(const std::vector<float>& gradient) {
    begin();
    end(gradient);
    if (!sync_.runs_ahead()) sync_.flush();
  }
  // A step whose forward pass reads the tensor.
  void begin() {
    begin_unread();
    read();
  }
  void begin_unread() { sync_.begin(optimizer_.next(rate_)); }
  void read() { sync_.before_read(0, nullptr); }
  void begin_epoch(int64_t epoch) { sync_.begin_epoch(epoch); }
  void flush() { sync_.flush(); }
  void end(const std::vector<float>& gradient) {
    std::ranges::copy(gradient, sums_.shard(rank_));
    sums_.add(rank_, {0, parameters_.size()});
    sync_.share(reports_);
    sync_.backward_done();
  }
  std::vector<float> values() const {
    return {parameters_.values(), parameters_.values() + kElements};
  }
  const Sync& sync() const { return sync_; }
  int64_t steps() const { return optimizer_.steps(); }

 private:
  static ParameterSpace parameters() {
    Graph g;
    const ValueId w = g.add_param("w", Tensor({DType::kF32, {kRows, kElements / kRows}}));
    return {g, std::vector{w}, cpu()};
  }

  const double rate_;
  ParameterSpace parameters_;
  Optimizer optimizer_;
  ShardSums sums_;
  Sync sync_;
  int rank_;
  std::vector<ShardReport> reports_;
};

inline void on_ranks(int ranks,
                     const std::function<void(Communicator& communicator, int rank)>& f) {
  auto transports = memory_transports(ranks);
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const auto communicator = talk(std::move(transports[static_cast<size_t>(r)]));
      f(*communicator, r);
      barrier(*communicator);
    });
  }
}

}  // namespace ndtrain::testing
