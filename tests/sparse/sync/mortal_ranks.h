// Trainings over slow links whose ranks die at given messages, and the ways in which they train.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "framework/sparse/local/local_steps.h"
#include "framework/sparse/low_rank/power_sgd.h"
#include "framework/sparse/sync/regrouped_training.h"
#include "framework/sparse/sync/sparse_sync.h"
#include "tests/parallel/mortal_transport.h"
#include "tests/sparse/slow_link_ranks.h"

namespace ndtrain::testing {

inline constexpr int64_t kDrainEvery = 2;
inline constexpr int kShards = 4;

struct NamedWay {
  std::string name;
  SlowLinkTraining::MakeSync make;
  OptimizerConfig optimizer = {};
  std::vector<int> sites = {};  // of three ranks; none: each is one by itself
};

template <class Sync, class Options>
NamedWay way(const std::string& name, const Options& options, const OptimizerConfig& optimizer,
             const std::vector<int>& sites = {}) {
  return {name, slow_link_way<Sync>(options).make, optimizer, sites};
}

inline std::vector<NamedWay> ways() {
  const OptimizerConfig adam{.kind = OptimizerConfig::Kind::kAdam},
      sgd{.kind = OptimizerConfig::Kind::kSgd},
      plain{.kind = OptimizerConfig::Kind::kSgd, .momentum = 0};
  return {
      way<SparseSync>("sparse", SparseSyncOptions{.drop = 0.9}, adam),
      way<SparseSync>("late", SparseSyncOptions{.drop = 0.9, .staleness = 2}, sgd),
      way<SparseSync>("lazy", SparseSyncOptions{.drop = 0.9, .optimizer = {.lazy = true}}, sgd),
      way<SparseSync>("random", SparseSyncOptions{.compressor = "randomk", .drop = 0.9, .seed = 3},
                      adam),
      way<SparseSync>("pieces", SparseSyncOptions{.drop = 0.9, .pieces = true}, adam),
      way<SparseSync>("gtopk",
                      SparseSyncOptions{.compressor = "topk", .drop = 0.9, .largest_of_sums = true},
                      adam),
      way<SparseSync>("dgc", deep_gradient_compression(0.9), plain),
      way<LocalSteps>("local", averaging(3), adam),
      way<LocalSteps>("diloco",
                      LocalStepsOptions{.inner_steps = 2, .overlap = 1, .compressor = "topk"}, sgd),
      way<PowerSgd>("powersgd", PowerSgdOptions{.rank = 2}, sgd),
      way<LocalSteps>("localsite", averaging(3), adam, {0, 1, 1})};
}

inline TrainerConfig config_of(const NamedWay& w) {
  TrainerConfig config = config_of(w.optimizer, kShards);
  config.batch = 14;
  return config;
}

// Of a rank, after the last epoch; it has a checkpoint behind each.
inline std::string rest_of(Training& training) {
  TensorDataset data = stripes(kRows, 3);
  std::string bytes;
  while (training.epoch() < kEpochs) {
    EpochResult result;
    EXPECT_TRUE(training.train_epoch(data, result, {}));
    bytes = bytes_of(training.checkpoint(), result);
  }
  return bytes;
}

inline void on_threads(int ranks, const std::function<void(size_t rank)>& f) {
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks; ++r) threads.emplace_back([&f, r] { f(static_cast<size_t>(r)); });
}

struct End {
  std::string bytes, error;
  std::map<std::string, Tensor> parameters;
  std::vector<RegroupedTraining::Loss> losses;
  int64_t steps = 0, sent_bytes = 0;
};

// Others may still be in the last epoch. Who has left already has its bytes, too.
inline void leave(RegroupedTraining& training) {
  try {
    try {
      barrier(training.communicator());
    } catch (const RankLost& lost) {
      training.regroup_after(lost);
    }
  } catch (const RankLost&) {
  }
}

// With `fs` each keeps what goes with a checkpoint there.
inline std::vector<End> mortal(const NamedWay& w, const std::vector<int64_t>& lives,
                               Fs* fs = nullptr) {
  auto transports = memory_transports(static_cast<int>(lives.size()));
  std::vector<End> ends(lives.size());
  on_threads(static_cast<int>(lives.size()), [&](size_t r) {
    try {
      const Model m = small_net(true, 0.3);
      SlowLinkTraining::Options options{.drain_every = kDrainEvery, .sites = w.sites};
      if (fs) options.files.emplace(*fs, "run", "of" + std::to_string(r) + "-");
      RegroupedTraining training(
          m, weights_of(m), cpu(), config_of(w),
          std::make_unique<Communicator>(
              std::make_unique<MortalTransport>(std::move(transports[r]), lives[r]),
              Communicator::Options{.in_flight = 1, .regroups = true}),
          options, w.make,
          [&, r](const RegroupedTraining::Loss& loss) { ends[r].losses.push_back(loss); });
      ends[r].bytes = rest_of(training);
      ends[r].parameters = training.checkpoint().parameters;
      ends[r].steps = training.figures().steps;
      ends[r].sent_bytes = training.figures().sent_bytes;
      leave(training);
    } catch (const std::exception& e) {
      ends[r].error = e.what();
    }
  });
  return ends;
}

inline void expect_same_parameters(const End& a, const End& b) {
  ASSERT_EQ(a.parameters.size(), b.parameters.size());
  for (const auto& [name, t] : a.parameters) {
    EXPECT_TRUE(std::ranges::equal(t.as<float>(), b.parameters.at(name).as<float>())) << name;
  }
}

}  // namespace ndtrain::testing
