// Twenty steps of ranks against one process without shards, and against PyTorch in double
// precision: tools/golden/trajectory.py says how its figures came to be.
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "framework/comm/memory_transport.h"
#include "framework/parallel/data_parallel.h"
#include "framework/parallel/plan_by_sizes.h"
#include "tests/runtime/cpu_device.h"
#include "tests/train/small_net.h"

namespace ndtrain {
namespace {

using testing::kSide;

constexpr int64_t kSteps = 20, kItems = 24;

struct Trajectory {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> values;  // parameters and running statistics
};

struct GoldenTrajectory {
  std::string optimizer;
  int shards;
  bool normalised;
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> values;
};

const GoldenTrajectory kGolden[] = {
#include "tests/parallel/golden_trajectory.inc"
};

// As the script has it.
float uniform(uint64_t of, uint64_t i) {
  uint64_t z = (of << 32) + i + 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return static_cast<float>((z ^ (z >> 31)) >> 40) / 8388608.0F - 1;
}

Tensor filled(uint64_t of, Shape shape, double scale) {
  Tensor t({DType::kF32, std::move(shape)});
  auto values = t.mutable_as<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(scale * uniform(of, i));
  }
  return t;
}

Model net(bool normalised) {
  Model m = testing::small_net(normalised, 0);
  uint64_t of = 0;
  for (const char* name : {"conv.w", "conv.b", "fc.w", "fc.b"}) {
    m.initialisers[name] = filled(of++, m.initialisers.at(name).shape(), 0.3);
  }
  if (normalised) {
    m.initialisers.erase("conv.b");
    m.nodes[0].inputs.pop_back();
  }
  return m;
}

TensorDataset pictures() {
  Tensor x = filled(9, {kItems, 1, kSide, kSide}, 0.5);
  auto values = x.mutable_as<float>();
  std::vector<int64_t> labels;
  for (int64_t n = 0; n < kItems; ++n) {
    labels.push_back(n % 3);
    for (int64_t i = 0; i < kSide * kSide; ++i) {
      const int64_t row = i / kSide, column = i % kSide;
      const int64_t at = n % 3 == 0 ? row : n % 3 == 1 ? column : row + column;
      values[static_cast<size_t>(n * kSide * kSide + i)] += at % 2 == 0 ? 1.0F : -1.0F;
    }
  }
  return {{x}, labels};
}

// A step is an epoch of all rows, so that no order of them matters.
TrainerConfig config_with(const std::string& optimizer, int shards) {
  const bool sgd = optimizer == "sgd";
  return {.epochs = kSteps,
          .batch = kItems,
          .optimizer = {.kind = optimizer_named(optimizer), .weight_decay = sgd ? 1e-3 : 0.1},
          .schedule = {.lr = sgd ? 0.1 : 0.01},
          .shards = shards};
}

Trajectory follow(Training& training) {
  TensorDataset data = pictures();
  Trajectory t;
  for (int64_t step = 0; step < kSteps; ++step) {
    EpochResult result;
    EXPECT_TRUE(training.train_epoch(data, result, {}));
    t.losses.push_back(result.loss);
  }
  const Checkpoint end = training.checkpoint();
  for (const auto* tensors : {&end.parameters, &end.states}) {
    for (const auto& [name, value] : *tensors) t.values[name] = value.to_doubles();
  }
  return t;
}

Trajectory of_one_process(bool normalised, const TrainerConfig& config) {
  const Model m = net(normalised);
  Trainer trainer(m, testing::weights_of(m), testing::cpu(), config);
  return follow(trainer);
}

std::vector<Trajectory> of_ranks(int ranks, bool normalised, const TrainerConfig& config) {
  auto transports = memory_transports(ranks);
  std::vector<Trajectory> all(static_cast<size_t>(ranks));
  std::vector<std::jthread> threads;
  for (size_t r = 0; r < all.size(); ++r) {
    threads.emplace_back([&, r] {
      const Model m = net(normalised);
      const auto plan = [&](const ParameterSpace& p) { return plan_by_sizes("dear", p, ranks); };
      DataParallel training(m, testing::weights_of(m), testing::cpu(), config,
                            std::make_unique<Communicator>(std::move(transports[r]),
                                                           Communicator::Options{.in_flight = 1}),
                            {.plan = plan});
      all[r] = follow(training);
      training.barrier();
    });
  }
  threads.clear();
  return all;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                 double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], tolerance) << what << i;
}

void expect_near(const Trajectory& got, const Trajectory& expected, double tolerance) {
  expect_near(got.losses, expected.losses, tolerance, "loss ");
  ASSERT_EQ(got.values.size(), expected.values.size());
  for (const auto& [name, values] : expected.values) {
    expect_near(got.values.at(name), values, tolerance, name + " ");
  }
}

TEST(Trajectory, OfRanksWithoutBatchStatisticsAndDropoutIsThatOfOneProcess) {
  for (const std::string optimizer : {"sgd", "adamw"}) {
    const Trajectory expected = of_one_process(false, config_with(optimizer, 1));
    EXPECT_LT(expected.losses.back(), 0.8 * expected.losses.front());  // it has learnt something
    for (const int ranks : {2, 3, 4, 8}) {
      SCOPED_TRACE(optimizer + ", ranks: " + std::to_string(ranks));
      for (const Trajectory& t : of_ranks(ranks, false, config_with(optimizer, 8))) {
        expect_near(t, expected, 1e-6);
      }
    }
  }
}

TEST(Trajectory, IsThatOfPyTorch) {
  for (const GoldenTrajectory& g : kGolden) {
    const TrainerConfig config = config_with(g.optimizer, g.shards);
    for (int ranks = 1; ranks <= g.shards; ++ranks) {
      SCOPED_TRACE(g.optimizer + (g.normalised ? ", normalised" : "") + ", shards " +
                   std::to_string(g.shards) + ", ranks " + std::to_string(ranks));
      for (const Trajectory& t : of_ranks(ranks, g.normalised, config)) {
        expect_near(t, {g.losses, g.values}, 1e-4);
      }
    }
  }
}

}  // namespace
}  // namespace ndtrain
