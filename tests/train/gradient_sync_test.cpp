#include "framework/train/gradient_sync.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "framework/train/local_sync.h"
#include "framework/train/trainer.h"
#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"
#include "tests/train/small_net.h"

namespace ndtrain {
namespace {

using testing::bytes_of;
using testing::error_of;
using testing::host_devices;
using testing::small_net;
using testing::stripes;

constexpr int64_t kRows = 30, kEpochs = 2;  // in steps of 8, 8, 8 and 6

Trainer trainer(const Trainer::MakeSync& make_sync = {}, OptimizerConfig optimizer = {},
                const Device& device = testing::cpu()) {
  const Model m = small_net(true, 0.3);
  return Trainer(m, testing::weights_of(m), device,
                 {.epochs = kEpochs,
                  .batch = 8,
                  .optimizer = optimizer,
                  .schedule = {.kind = Schedule::Kind::kCosine, .lr = 0.01},
                  .seed = 5},
                 make_sync);
}

// Leaves each slot's update until the next step is about to read the slot.
class LateSync final : public GradientSync {
 public:
  LateSync(ParameterSpace& parameters, Optimizer& optimizer)
      : parameters_(parameters), optimizer_(optimizer), late_(parameters.slots().size()) {}

  void begin(const HyperParameters& hyper) override {
    EXPECT_TRUE(ready_.empty());
    next_ = hyper;
    read_.clear();
  }
  void before_read(size_t slot, ndt_stream*) override {
    EXPECT_TRUE(read_.insert(slot).second) << "slot " << slot << " is asked for twice";
    update(slot);
  }
  void gradient_ready(size_t slot, ndt_stream*) override {
    EXPECT_FALSE(late_[slot]) << "its gradient is written over before it was used";
    ready_.push_back(slot);
  }
  void backward_done() override {
    std::vector<size_t> all(late_.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    EXPECT_EQ(ready_, all) << "the slots do not lie in the order in which they are ready";
    EXPECT_EQ(read_.size(), all.size());
    late_.assign(late_.size(), true);
    hyper_ = next_;
    ready_.clear();
  }
  void skip() override { ready_.clear(); }
  void flush() override {
    for (size_t i = late_.size(); i-- > 0;) update(i);
  }

 private:
  void update(size_t slot) {
    if (!late_[slot]) return;
    late_[slot] = false;
    const ParameterRange r = parameters_.slots()[slot].range;
    optimizer_.apply(r, hyper_, parameters_.gradients(r.begin), parameters_.values(r.begin),
                     parameters_.values(r.begin));
  }

  ParameterSpace& parameters_;
  Optimizer& optimizer_;
  std::vector<bool> late_;  // the slot's update of hyper_ is not applied yet
  HyperParameters hyper_, next_;
  std::vector<size_t> ready_;
  std::set<size_t> read_;
};

template <typename Sync>
Trainer::MakeSync make() {
  return [](const Trainer::Shared& s) { return std::make_unique<Sync>(s.parameters, s.optimizer); };
}

TEST(GradientSync, UpdatesJustBeforeTheyAreReadGiveTheSameBytes) {
  using Kind = OptimizerConfig::Kind;
  for (const Device* device : host_devices()) {
    for (const Kind kind : {Kind::kSgd, Kind::kAdam, Kind::kAdamW}) {
      Trainer at_once = trainer({}, {.kind = kind}, *device);
      Trainer late = trainer(make<LateSync>(), {.kind = kind}, *device);
      TensorDataset data = stripes(kRows, 1);
      EpochResult a, b;
      for (int epoch = 0; epoch < kEpochs; ++epoch) {
        ASSERT_TRUE(at_once.train_epoch(data, a));
        ASSERT_TRUE(late.train_epoch(data, b));
        EXPECT_EQ(a.loss, b.loss);
        EXPECT_EQ(at_once.evaluate(data).loss, late.evaluate(data).loss);
      }
      EXPECT_TRUE(bytes_of(at_once.checkpoint()) == bytes_of(late.checkpoint()));
    }
  }
}

TEST(GradientSync, IsFlushedWhereverTheParametersLeaveOrChange) {
  TensorDataset data = stripes(kRows, 1);
  const auto after = [&](const Trainer::MakeSync& make_sync, auto leave) {
    Trainer t = trainer(make_sync);
    EpochResult r;
    int64_t steps = 0;
    EXPECT_FALSE(t.train_epoch(data, r, [&](int64_t, int64_t) { return ++steps < 3; }));
    return leave(t);
  };
  const auto same = [&](auto leave) { return after({}, leave) == after(make<LateSync>(), leave); };
  EXPECT_TRUE(same([](Trainer& t) { return bytes_of(t.checkpoint()); }));
  EXPECT_TRUE(same([](Trainer& t) {
    const Tensor w = t.model().initialisers.at("conv.w");
    return w.to_doubles();
  }));
  EXPECT_TRUE(same([&](Trainer& t) { return t.evaluate(data).loss; }));
  EXPECT_TRUE(same([&](Trainer& t) {
    t.prepare(kRows, 0);
    return bytes_of(t.checkpoint());
  }));
  EXPECT_TRUE(same([&](Trainer& t) {
    t.reset_optimizer();
    EpochResult r;
    t.train_epoch(data, r);
    return bytes_of(t.checkpoint());
  }));
  EXPECT_TRUE(same([&](Trainer& t) {
    t.restore(trainer().checkpoint());
    EpochResult r;
    t.train_epoch(data, r);
    return bytes_of(t.checkpoint());
  }));
}

// Says no to the second step, as another rank may.
class Refusing final : public GradientSync {
 public:
  Refusing(ParameterSpace& parameters, Optimizer& optimizer) : local_(parameters, optimizer) {}
  void begin(const HyperParameters& hyper) override { local_.begin(hyper); }
  void share(std::span<ShardReport> reports) override {
    if (++asked_ == 2) reports[0].finite = 0;
  }
  void backward_done() override { local_.backward_done(); }
  void skip() override { ++skipped; }
  void flush() override {}
  static inline int skipped = 0;

 private:
  LocalSync local_;
  int asked_ = 0;
};

TEST(GradientSync, AStepThatIsNotAgreedOnLeavesNoTrace) {
  TensorDataset data = stripes(16, 1);  // two steps
  Trainer t = trainer(make<Refusing>());
  EpochResult r;
  int64_t steps = 0;
  ASSERT_FALSE(t.train_epoch(data, r, [&](int64_t, int64_t) { return ++steps < 1; }));
  const Checkpoint first = t.checkpoint();
  ASSERT_TRUE(t.train_epoch(data, r));
  EXPECT_EQ(Refusing::skipped, 1);
  const Checkpoint second = t.checkpoint();
  EXPECT_EQ(second.optimizer_steps, 1);
  for (const auto& [name, value] : first.parameters) {
    EXPECT_TRUE(value.same_bytes(second.parameters.at(name))) << name;
  }
  for (const auto& [name, value] : first.states) {
    EXPECT_TRUE(value.same_bytes(second.states.at(name))) << name;
  }
  for (const auto& [name, value] : first.optimizer) {
    EXPECT_TRUE(value.same_bytes(second.optimizer.at(name))) << name;
  }
}

// Fails once, in the middle of the backward pass of its third step.
class Failing final : public GradientSync {
 public:
  Failing(ParameterSpace& parameters, Optimizer& optimizer) : local_(parameters, optimizer) {}
  void begin(const HyperParameters& hyper) override {
    ++begun_;
    local_.begin(hyper);
  }
  void gradient_ready(size_t slot, ndt_stream*) override {
    if (begun_ == 3 && slot == 1) throw Error("rank 3 is gone");
  }
  void backward_done() override { local_.backward_done(); }
  void skip() override {}
  void flush() override {}

 private:
  LocalSync local_;
  int begun_ = 0;
};

TEST(GradientSync, AStepThatFailedIsTakenAgainAndChangesNoByte) {
  TensorDataset data = stripes(kRows, 1);
  Trainer undisturbed = trainer(), t = trainer(make<Failing>());
  EpochResult r;
  EXPECT_EQ(error_of([&] { t.train_epoch(data, r); }), "rank 3 is gone");
  EXPECT_EQ(t.checkpoint().optimizer_steps, 2);
  EXPECT_EQ(t.checkpoint().step, 2);
  ASSERT_TRUE(t.train_epoch(data, r));
  ASSERT_TRUE(undisturbed.train_epoch(data, r));
  EXPECT_TRUE(bytes_of(t.checkpoint()) == bytes_of(undisturbed.checkpoint()));
}

}  // namespace
}  // namespace ndtrain
