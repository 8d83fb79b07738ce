// Steps by ranks with more than an exchange of gradients in them, against one process that does all
// the shards with the same options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/parallel/training_by_ranks.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h

using OptimizerKind = OptimizerConfig::Kind;
constexpr OptimizerKind kKinds[] = {OptimizerKind::kSgd, OptimizerKind::kAdam,
                                    OptimizerKind::kAdamW, OptimizerKind::kRmsProp};
constexpr double kClipNorm = 0.05;  // below the norms of these trainings

struct StepOption {
  const char* name;
  double clip_norm = 0;
  bool shard_optimizer = false;
  int64_t accumulate = 1;
  double ema = 0;
};

TrainerConfig config_with(const StepOption& option, OptimizerKind kind) {
  TrainerConfig config =
      config_of({.kind = kind, .clip_norm = option.clip_norm, .ema = option.ema}, 8);
  config.batch = 40;
  config.accumulate = option.accumulate;
  return config;
}

auto plans(bool shard_optimizer) {
  return plans_of_schedules({.evaluations = 500, .shard_optimizer = shard_optimizer});
}

class StepOptionBytes : public ::testing::TestWithParam<StepOption> {};

TEST_P(StepOptionBytes, AreThoseOfOneProcessWhateverScheduleAndRanks) {
  const StepOption& option = GetParam();
  for (const OptimizerKind kind : kKinds) {
    const TrainerConfig config = config_with(option, kind);
    const Bytes expected = alone(config);
    if (option.clip_norm > 0 || option.accumulate > 1 || option.ema > 0) {
      EXPECT_NE(expected == alone(config_with({}, kind)), true) << "it does nothing";
    }
    for (const auto& [name, plan] : plans(option.shard_optimizer)) {
      for (const int ranks : {1, 2, 3, 4}) {
        SCOPED_TRACE(name + ", ranks: " + std::to_string(ranks));
        const DataParallel::Options options = {
            .plan = plan, .exchange = {.shard_optimizer = option.shard_optimizer}};
        for (const Bytes& b : by_ranks(ranks, config, options)) {
          ASSERT_EQ(b == expected, true) << "other bytes";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Options, StepOptionBytes,
                         ::testing::Values(StepOption{"Clipping", kClipNorm},
                                           StepOption{"ShardedOptimizer", 0, true},
                                           StepOption{"Accumulation", 0, false, 2},
                                           StepOption{"Average", 0, false, 1, 0.8},
                                           StepOption{"ShardedAverage", 0, true, 1, 0.8},
                                           StepOption{"Together", kClipNorm, true, 2, 0.9}),
                         [](const auto& of) { return std::string(of.param.name); });

// What each rank ends with.
std::vector<Checkpoint> ended(int ranks, const TrainerConfig& config,
                              const DataParallel::Options& options,
                              const Checkpoint* begin = nullptr, int64_t epochs = kEpochs) {
  auto transports = memory_transports(ranks);
  std::vector<Checkpoint> all(static_cast<size_t>(ranks));
  std::vector<std::jthread> threads;
  for (size_t r = 0; r < all.size(); ++r) {
    threads.emplace_back([&, r] {
      const Model m = small_net(true, 0.3);
      DataParallel training(m, weights_of(m), cpu(), config, talk(std::move(transports[r])),
                            options);
      if (begin) training.restore(*begin);
      TensorDataset data = stripes(kRows, 3);
      EpochResult result;
      while (training.epoch() < epochs) EXPECT_TRUE(training.train_epoch(data, result, {}));
      all[r] = training.checkpoint();
      training.barrier();
    });
  }
  threads.clear();
  return all;
}

Checkpoint ended_alone(const TrainerConfig& config, const Checkpoint* begin = nullptr) {
  const Model m = small_net(true, 0.3);
  Trainer trainer(m, weights_of(m), cpu(), config);
  if (begin) trainer.restore(*begin);
  TensorDataset data = stripes(kRows, 3);
  EpochResult result;
  while (trainer.epoch() < kEpochs) EXPECT_TRUE(trainer.train_epoch(data, result));
  return trainer.checkpoint();
}

double largest_difference(const Checkpoint& a, const Checkpoint& b) {
  double most = 0;
  for (const auto& [name, t] : a.parameters) {
    const std::vector<double> x = t.to_doubles(), y = b.parameters.at(name).to_doubles();
    for (size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x[i] - y[i]));
  }
  return most;
}

TEST(StepOptions, GradientsThatTravelAsBf16LeaveAllRanksTheSameAndNearF32) {
  for (const bool shard_optimizer : {false, true}) {
    const StepOption option{"", kClipNorm * 100, shard_optimizer};
    TrainerConfig config = config_with(option, OptimizerKind::kSgd);
    config.schedule.lr = 0.1;
    const Checkpoint exact = ended_alone(config);
    for (const auto& [name, plan] : plans(shard_optimizer)) {
      const DataParallel::Options options = {
          .plan = plan, .exchange = {.shard_optimizer = shard_optimizer, .wire = DType::kBF16}};
      for (const int ranks : {2, 3, 4}) {
        SCOPED_TRACE(name + ", ranks: " + std::to_string(ranks));
        const std::vector<Checkpoint> all = ended(ranks, config, options);
        for (const Checkpoint& c : all) EXPECT_TRUE(bytes_of(c) == bytes_of(all[0]));
        EXPECT_LT(largest_difference(all[0], exact), 2e-3);
        EXPECT_GT(largest_difference(all[0], exact), 0) << "nothing was rounded";
      }
    }
  }
}

// Of one step of plain gradient descent.
TEST(StepOptions, ClippingIsPyTorchsRule) {
  StepOption option{"", 0, false, 1};
  const auto after_a_step = [&](double clip_norm, const DataParallel::MakePlan& plan, bool shard) {
    option.clip_norm = clip_norm;
    TrainerConfig config = config_with(option, OptimizerKind::kSgd);
    config.optimizer.momentum = 0;
    config.batch = kRows;
    config.epochs = 1;
    config.schedule = {.lr = 0.5};
    return ended(3, config, {.plan = plan, .exchange = {.shard_optimizer = shard}}, nullptr, 1)[0];
  };
  const Model m = small_net(true, 0.3);
  const Checkpoint plain = after_a_step(0, all_reduce_at_once, false);
  double squares = 0;
  for (const auto& [name, t] : plain.parameters) {
    const std::vector<double> from = m.initialisers.at(name).to_doubles(), to = t.to_doubles();
    for (size_t i = 0; i < to.size(); ++i) squares += std::pow((from[i] - to[i]) / 0.5, 2);
  }
  const double norm = std::sqrt(squares), most = norm / 3;
  for (const bool shard : {false, true}) {
    for (const auto& [schedule, plan] : plans(shard)) {
      for (const auto& [name, t] : after_a_step(most, plan, shard).parameters) {
        const std::vector<double> from = m.initialisers.at(name).to_doubles(), to = t.to_doubles();
        const std::vector<double> unclipped = plain.parameters.at(name).to_doubles();
        for (size_t i = 0; i < to.size(); ++i) {
          const double expected = from[i] + (unclipped[i] - from[i]) * most / (norm + 1e-6);
          EXPECT_NEAR(to[i], expected, 1e-6) << schedule << " " << name;
        }
      }
    }
  }
}

// In 16 bits with a scale of the loss with which at first no gradient stays finite.
TEST(StepOptions, AStepThatIsLeftOutIsLeftOutByAll) {
  TrainerConfig config = config_with({"", kClipNorm, false, 2}, OptimizerKind::kAdam);
  config.compute = DType::kF16;
  const Model m = small_net(true, 0.3);
  Trainer begun(m, weights_of(m), cpu(), config);
  Checkpoint begin = begun.checkpoint();
  Checkpoint expected;
  for (double scale = LossScale::kHighest; expected.optimizer_steps == 0; scale /= 2) {
    begin.loss_scale.value = scale;
    expected = ended_alone(config, &begin);
  }
  ASSERT_LT(expected.optimizer_steps, 4) << "no step was left out";
  for (const bool shard : {false, true}) {
    for (const auto& [name, plan] : plans(shard)) {
      SCOPED_TRACE(name);
      const DataParallel::Options options = {.plan = plan, .exchange = {.shard_optimizer = shard}};
      for (const Checkpoint& c : ended(3, config, options, &begin)) {
        EXPECT_TRUE(bytes_of(c) == bytes_of(expected));
      }
    }
  }
}

// Rows with which the loss is finite, and the gradients are not.
TensorDataset too_large_rows() {
  Tensor x({DType::kF32, {kRows, 1, kSide, kSide}});
  std::ranges::fill(x.mutable_as<float>(), 3e38F);
  return {{x}, std::vector<int64_t>(kRows)};
}

Model net_that_ignores_rows() {
  Model m = small_net(false, 0);
  std::ranges::fill(m.initialisers["conv.w"].mutable_as<float>(), 0.0F);
  std::ranges::fill(m.initialisers["conv.b"].mutable_as<float>(), 1e-3F);
  for (float& w : m.initialisers["fc.w"].mutable_as<float>()) w *= 100;
  return m;
}

TEST(StepOptions, AStepWhoseNormIsNoneIsAnErrorOnAllRanksAndLeavesNoTrace) {
  const TrainerConfig config = config_with({"", kClipNorm}, OptimizerKind::kAdam);
  const Model m = net_that_ignores_rows();
  const auto after_an_epoch = [](Training& training) {
    TensorDataset data = stripes(kRows, 3);
    EpochResult result;
    EXPECT_TRUE(training.train_epoch(data, result, {}));
    return bytes_of(training.checkpoint());
  };
  Trainer undisturbed(m, weights_of(m), cpu(), config);
  const std::string expected = after_an_epoch(undisturbed);
  for (const bool shard : {false, true}) {
    for (const auto& [name, plan] : plans(shard)) {
      auto transports = memory_transports(2);
      std::vector<std::jthread> threads;
      for (auto& transport : transports) {
        threads.emplace_back([&, shard = shard, plan = plan, t = std::move(transport)]() mutable {
          DataParallel training(m, weights_of(m), cpu(), config, talk(std::move(t)),
                                {.plan = plan, .exchange = {.shard_optimizer = shard}});
          TensorDataset data = too_large_rows();
          EpochResult result;
          EXPECT_THAT(error_of([&] { (void)training.train_epoch(data, result, {}); }),
                      ::testing::HasSubstr("the norm of the gradients is"));
          EXPECT_TRUE(after_an_epoch(training) == expected);
          training.barrier();
        });
      }
    }
  }
}

DataParallel::Options sharded(const DataParallel::MakePlan& plan) {
  return {.plan = plan, .exchange = {.shard_optimizer = true}};
}

TEST(StepOptions, AnyNumberOfRanksGoesOnFromMomentsThatWereSharded) {
  for (const OptimizerKind kind : kKinds) {
    const TrainerConfig config = config_with({}, kind);
    const Checkpoint expected = ended_alone(config);
    for (const Checkpoint& c : ended(3, config, sharded(pieces_of_32), nullptr, 1)) {
      EXPECT_TRUE(bytes_of(ended_alone(config, &c)) == bytes_of(expected));
      for (const int ranks : {1, 2, 4}) {
        const auto more = ended(ranks, config, sharded(grouped), &c);
        EXPECT_TRUE(bytes_of(more.back()) == bytes_of(expected)) << ranks;
      }
      const auto whole = ended(2, config, {.plan = by_rank_0}, &c);
      EXPECT_TRUE(bytes_of(whole.back()) == bytes_of(expected));
    }
  }
}

using PlanOf = CommPlan (*)(const ParameterSpace&);

// A Trainer by ranks with its ExchangeSync at hand.
struct ByHand {
  ByHand(std::unique_ptr<Transport> transport, PlanOf plan, const ExchangeOptions& options,
         const TrainerConfig& config, std::vector<int> first)
      : communicator(std::move(transport), {.in_flight = 1, .trace = true}) {
    const Model m = small_net(true, 0.3);
    TrainerConfig own = config;
    const auto rank = static_cast<size_t>(communicator.rank());
    own.own_shards = ShardRange{first[rank], first[rank + 1]};
    trainer =
        std::make_unique<Trainer>(m, weights_of(m), cpu(), own, [&](const Trainer::Shared& shared) {
          parameters = &shared.parameters;
          optimizer = &shared.optimizer;
          auto made = std::make_unique<ExchangeSync>(shared, communicator, plan(shared.parameters),
                                                     first, options);
          sync = made.get();
          return made;
        });
  }

  Communicator communicator;
  std::unique_ptr<Trainer> trainer;
  ParameterSpace* parameters = nullptr;
  Optimizer* optimizer = nullptr;
  ExchangeSync* sync = nullptr;
};

CommPlan in_halves(const ParameterSpace& p) { return halves(p, 1); }
CommPlan in_pieces(const ParameterSpace& p) { return pieces_of_32(p); }

// `run` of each of three ranks, which have the shards of 8 that `first` says.
void by_three(const ExchangeOptions& options, PlanOf plan,
              const std::function<void(ByHand&)>& run) {
  auto transports = memory_transports(3);
  std::vector<std::jthread> threads;
  for (auto& transport : transports) {
    threads.emplace_back([&, t = std::move(transport)]() mutable {
      ByHand rank(std::move(t), plan, options, config_with({}, OptimizerKind::kAdam), {0, 3, 5, 8});
      run(rank);
      const auto end = rank.communicator.enqueue({.group = {0, 1, 2}, .name = "end"});
      rank.communicator.release(end);
      rank.communicator.wait(end);
    });
  }
}

TEST(StepOptions, ARankKeepsTheMomentsOfItsSlicesAlone) {
  by_three({.shard_optimizer = true}, all_reduce_at_once, [](ByHand& rank) {
    TensorDataset data = stripes(kRows, 3);
    EpochResult result;
    EXPECT_TRUE(rank.trainer->train_epoch(data, result));
    int64_t kept = 0;
    const HyperParameters hyper = rank.optimizer->next(0);
    for (int64_t at = 0; at < rank.parameters->size(); at += ParameterSpace::kAlign) {
      const ParameterRange line = {at, at + ParameterSpace::kAlign};
      const std::string error = error_of([&] {
        rank.optimizer->apply(line, hyper, rank.parameters->gradients(at),
                              rank.parameters->values(at), rank.parameters->values(at));
      });
      kept += error == "no error" ? line.size() : 0;
    }
    EXPECT_GT(kept, 0);
    EXPECT_LT(kept, rank.parameters->size());
  });
}

TEST(StepOptions, MomentsChangeHandsWhereAPlanHasOtherSlices) {
  const std::string expected = bytes_of(ended_alone(config_with({}, OptimizerKind::kAdam)));
  by_three({.shard_optimizer = true}, in_pieces, [&](ByHand& rank) {
    TensorDataset data = stripes(kRows, 3);
    EpochResult result;
    EXPECT_TRUE(rank.trainer->train_epoch(data, result));
    rank.sync->change_plan(all_reduce_at_once(*rank.parameters));
    EXPECT_TRUE(rank.sync->plan().shard_optimizer);
    EXPECT_TRUE(rank.trainer->train_epoch(data, result));
    EXPECT_TRUE(bytes_of(rank.trainer->checkpoint()) == expected);
  });
}

// The kinds of operations on buckets that a training by these options has carried out.
std::set<std::string> operations(const ExchangeOptions& options, PlanOf plan) {
  std::set<std::string> kinds;
  by_three(options, plan, [&](ByHand& rank) {
    TensorDataset data = stripes(kRows, 3);
    EpochResult result;
    EXPECT_TRUE(rank.trainer->train_epoch(data, result));
    rank.sync->flush();
    if (rank.communicator.rank() != 0) return;
    for (const Communicator::Span& span : rank.communicator.take_trace()) {
      const size_t digits = span.name.find_first_of("0123456789");
      if (digits != std::string::npos) kinds.insert(span.name.substr(0, digits));
    }
  });
  return kinds;
}

TEST(StepOptions, ABreakdownCarriesOutTheHalfThatItIsOf) {
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  for (const auto plan : {in_halves, in_pieces}) {
    EXPECT_THAT(operations({.only = Breakdown::kReduceScatters}, plan), ElementsAre("R"));
    EXPECT_THAT(operations({.only = Breakdown::kAllGathers}, plan), ElementsAre("A"));
    EXPECT_THAT(operations({.only = Breakdown::kNeither}, plan), IsEmpty());
  }
  EXPECT_THAT(operations({}, in_halves), ElementsAre("A", "R"));
  EXPECT_THAT(operations({}, in_pieces), ElementsAre("AR"));
}

TEST(StepOptions, ABreakdownOfAnyScheduleComesToItsEnd) {
  for (const bool shard : {false, true}) {
    const TrainerConfig config = config_with({"", shard ? kClipNorm : 0}, OptimizerKind::kSgd);
    for (const auto& [name, plan] : plans(shard)) {
      for (const char* only : {"rs", "ag", "none"}) {
        SCOPED_TRACE(name + ", " + only);
        const ExchangeOptions exchange = {.shard_optimizer = shard, .only = breakdown_named(only)};
        for (const Checkpoint& c : ended(2, config, {.plan = plan, .exchange = exchange})) {
          EXPECT_EQ(c.optimizer_steps, 4);
        }
      }
    }
  }
  EXPECT_THAT(error_of([] { breakdown_named("all"); }), ::testing::HasSubstr("not 'all'"));
}

TEST(StepOptions, RankZerosSumsLeaveAShardedOptimizerNoSlices) {
  const Model m = small_net(true, 0.3);
  auto transports = memory_transports(1);
  EXPECT_THAT(error_of([&] {
                DataParallel(m, weights_of(m), cpu(), config_with({}, OptimizerKind::kSgd),
                             talk(std::move(transports[0])), sharded(by_rank_0));
              }),
              ::testing::HasSubstr("Re5 leaves a sharded optimizer no slices"));
}

}  // namespace
}  // namespace ndtrain
