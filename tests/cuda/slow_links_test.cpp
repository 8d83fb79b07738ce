// Trainings over slow links by ranks whose devices have memory of their own: what is exchanged is
// staged in memory of the host.
#include <gmock/gmock.h>

#include <deque>

#include "framework/sparse/local/local_steps.h"
#include "framework/sparse/low_rank/power_sgd.h"
#include "framework/sparse/sync/sparse_sync.h"
#include "tests/cuda/emulated.h"
#include "tests/sparse/slow_link_ranks.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h

// One process whose gradients are copied when they are all there, and its parameters back when all
// of them are updated, so many steps late and behind every `drain_every` steps.
class CopyingSync final : public GradientSync {
 public:
  CopyingSync(const Trainer::Shared& shared, int delay)
      : shared_(shared), delay_(delay), values_(shared.parameters, cpu()) {}

  void begin(const HyperParameters& hyper) override {
    while (std::ssize(pending_) > delay_) apply_oldest();
    send();
    hyper_ = hyper;
  }
  bool follows_the_run() const override { return false; }
  void backward_done() override {
    std::vector<float> gradients(static_cast<size_t>(values_.size()));
    shared_.device.download(gradients.data(), shared_.gradients.sums()[0],
                            gradients.size() * sizeof(float));
    pending_.emplace_back(hyper_, std::move(gradients));
  }
  void skip() override {}
  void flush() override {
    while (!pending_.empty()) apply_oldest();
    send();
  }

 private:
  void apply_oldest() {
    auto& [hyper, gradients] = pending_.front();
    shared_.optimizer.apply({0, values_.size()}, hyper, gradients.data(), values_.values(),
                            values_.values());
    pending_.pop_front();
  }
  void send() {
    shared_.device.upload(shared_.parameters.values(), values_.values(),
                          static_cast<size_t>(values_.size()) * sizeof(float));
  }

  Trainer::Shared shared_;
  const int delay_;
  ParameterSpace values_;
  HyperParameters hyper_;
  std::deque<std::pair<HyperParameters, std::vector<float>>> pending_;
};

class CudaSlowLinks : public OnFakes {
 protected:
  template <class Sync, class SyncOptions>
  SlowLinkWay on_device(const SyncOptions& sync, SlowLinkTraining::Options options = {}) const {
    SlowLinkWay way = slow_link_way<Sync>(sync, std::move(options));
    way.device = &device_;
    return way;
  }

  std::string serial(TrainerConfig config, int delay, int64_t drain_every) const {
    const Model m = small_net(true, 0.3);
    CopyingSync* sync = nullptr;
    config.update_device = &cpu();
    Trainer trainer(m, weights_of(m), device_, config, [&](const Trainer::Shared& shared) {
      auto made = std::make_unique<CopyingSync>(shared, delay);
      sync = made.get();
      return made;
    });
    return train_flushing(trainer, *sync, drain_every);
  }

  // Of rank 0; all have the same parameters.
  static Checkpoint trained(int ranks, const TrainerConfig& config, SlowLinkWay way) {
    way.options.verify_every = 1;
    Checkpoint at_end;
    on_ranks_that_train(ranks, config, way, nullptr, [&](SlowLinkTraining& training, int rank) {
      (void)train_on(training, kEpochs);
      const Checkpoint c = training.checkpoint();
      if (rank == 0) at_end = c;
    });
    return at_end;
  }

  const Device device_{cuda(), {.deterministic = true}};
};

void expect_near(const std::map<std::string, Tensor>& got,
                 const std::map<std::string, Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, tensor] : want) {
    SCOPED_TRACE(name);
    const std::vector<double> a = got.at(name).to_doubles(), b = tensor.to_doubles();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-3) << i;
  }
}

TEST_F(CudaSlowLinks, OfWholeGradientsAndSomeStepsLateIsASerialProgram) {
  std::vector<std::string> others;
  for (const auto& [ranks, staleness] : {std::pair{2, 0}, {2, 1}, {2, 2}, {3, 1}}) {
    TrainerConfig config = config_of({.kind = OptimizerConfig::Kind::kAdam}, ranks);
    config.batch = 12;
    const std::string expected = serial(config, staleness, 4);
    for (const std::string& other : others) ASSERT_EQ(other == expected, false);
    others.push_back(expected);
    const SlowLinkWay way = on_device<SparseSync>(
        SparseSyncOptions{.drop = 0, .staleness = staleness}, {.drain_every = 4});
    on_ranks_that_train(ranks, config, way, nullptr, [&](SlowLinkTraining& training, int) {
      EXPECT_EQ(train_on(training, kEpochs) == expected, true);
    });
  }
}

// Streams do their work whenever they like, as long as events allow it.
TEST_F(CudaSlowLinks, DoesNotDependOnHowLateStreamsAre) {
  TrainerConfig config = config_of({}, 2);
  const std::string expected = serial(config, 1, 100);
  const SlowLinkWay way =
      on_device<SparseSync>(SparseSyncOptions{.drop = 0, .staleness = 1}, {.drain_every = 100});
  for (const uint64_t late : {1, 2}) {
    fake::set_late(late);
    on_ranks_that_train(2, config, way, nullptr, [&](SlowLinkTraining& training, int) {
      EXPECT_EQ(train_on(training, kEpochs) == expected, true) << late;
    });
  }
}

// Several shards of a rank, and parts of one, are added up on the device before they are copied.
TEST_F(CudaSlowLinks, OfSeveralShardsAndPartsIsASerialProgram) {
  TrainerConfig config = config_of({}, 4);
  for (const int64_t accumulate : {1, 2}) {
    config.accumulate = accumulate;
    const std::string expected = serial(config, 0, 1);
    const SlowLinkWay way = on_device<SparseSync>(SparseSyncOptions{.drop = 0});
    on_ranks_that_train(2, config, way, nullptr, [&](SlowLinkTraining& training, int) {
      EXPECT_EQ(train_on(training, kEpochs) == expected, true) << accumulate;
    });
  }
}

TEST_F(CudaSlowLinks, EveryExchangeComesToWhatItComesToOnTheHost) {
  const TrainerConfig config = config_of({.kind = OptimizerConfig::Kind::kSgd}, 4);
  const std::vector<std::pair<std::string, SlowLinkWay>> ways = {
      {"sites", slow_link_way<SparseSync>(SparseSyncOptions{.drop = 0}, {.sites = {0, 0, 1, 1}})},
      {"local", slow_link_way<LocalSteps>(averaging(2))},
      {"diloco", slow_link_way<LocalSteps>(LocalStepsOptions{.inner_steps = 2, .fragments = 2})},
      {"diloco by sites",
       slow_link_way<LocalSteps>(LocalStepsOptions{.inner_steps = 2}, {.sites = {0, 0, 1, 1}})},
      {"powersgd", slow_link_way<PowerSgd>(PowerSgdOptions{.rank = 2})}};
  for (auto [name, way] : ways) {
    SCOPED_TRACE(name);
    const Checkpoint on_host = trained(4, config, way);
    way.device = &device_;
    const Checkpoint there = trained(4, config, way);
    expect_near(there.parameters, on_host.parameters);
    expect_near(there.states, on_host.states);
  }
}

TEST_F(CudaSlowLinks, ResumedIsUnbroken) {
  const TrainerConfig config = config_of({}, 2);
  const std::vector<std::pair<std::string, SlowLinkWay>> ways = {
      {"sparse",
       on_device<SparseSync>(SparseSyncOptions{.drop = 0.9, .staleness = 1}, {.drain_every = 1})},
      {"diloco", on_device<LocalSteps>(LocalStepsOptions{.inner_steps = 2}, {.drain_every = 1})},
      {"powersgd", on_device<PowerSgd>(PowerSgdOptions{.rank = 2})}};
  for (const auto& [name, way] : ways) {
    MemoryFs fs;
    const Checkpoint saved = stopped_after(1, 2, config, way, fs);
    std::vector<std::string> expected(2);  // moments may be a rank's own
    on_ranks_that_train(2, config, way, nullptr, [&](SlowLinkTraining& training, int rank) {
      expected[static_cast<size_t>(rank)] = train_on(training, kEpochs);
    });
    EXPECT_EQ(resumed(saved, 2, config, way, fs) == expected, true) << name;
  }
}

// A copy to or from ordinary memory is one that the host waits for.
TEST_F(CudaSlowLinks, GradientsAndValuesGoThroughPinnedMemoryOnStreams) {
  const TrainerConfig config = config_of({}, 1);
  const SlowLinkWay way = on_device<SparseSync>(SparseSyncOptions{.drop = 0});
  std::map<size_t, int64_t> slots;  // by bytes
  on_ranks_that_train(1, config, way, nullptr, [&](SlowLinkTraining& training, int) {
    for (const ParameterSlot& s : training.parameters().slots()) {
      ++slots[static_cast<size_t>(s.range.size()) * sizeof(float)];
    }
    fake::forget_calls();
    TensorDataset data = stripes(kRows, 3);
    EpochResult result;
    int64_t steps = 0;
    training.train_epoch(data, result, [&](int64_t done, int64_t) { return steps = done, true; });
    std::map<size_t, int64_t> down, up;
    std::map<const void*, int64_t> streams;
    for (const fake::Call& c : fake::calls()) {
      if (!c.pinned || !slots.contains(c.bytes)) continue;
      if (c.name == "cudaMemcpyAsync D2H") ++down[c.bytes], ++streams[c.stream];
      if (c.name == "cudaMemcpyAsync H2D") ++up[c.bytes];
    }
    for (const auto& [bytes, of_step] : slots) {
      EXPECT_GE(down[bytes], steps * of_step) << bytes;
      EXPECT_GE(up[bytes], steps * of_step) << bytes;
    }
  });
}

}  // namespace
}  // namespace ndtrain
