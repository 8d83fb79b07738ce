// Trainings by ranks over slow links in one process, begun, stopped and resumed.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "framework/parallel/between_ranks.h"
#include "framework/sparse/sync/slow_link_training.h"
#include "framework/testing/memory_fs.h"
#include "tests/parallel/training_by_ranks.h"

namespace ndtrain::testing {

struct SlowLinkWay {
  SlowLinkTraining::MakeSync make;
  SlowLinkTraining::Options options = {};
  const Device* device = nullptr;  // of all ranks; null: cpu()
};

// One that is made of a Sync's own options.
template <class Sync, class SyncOptions>
SlowLinkWay slow_link_way(const SyncOptions& sync, SlowLinkTraining::Options options = {}) {
  return {[sync](const Trainer::Shared& shared, Communicator& communicator,
                 std::vector<int> first_shards, std::vector<int> sites) {
            SyncOptions own = sync;
            own.sites = std::move(sites);
            return std::make_unique<Sync>(shared, communicator, std::move(first_shards), own);
          },
          std::move(options)};
}

using SlowLinkUse = std::function<void(SlowLinkTraining& training, int rank)>;

// Each rank keeps its files in a directory of its own of `fs`.
inline void on_ranks_that_train(int ranks, const TrainerConfig& config, const SlowLinkWay& way,
                                Fs* fs, const SlowLinkUse& use) {
  auto transports = memory_transports(ranks);
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      try {
        SlowLinkTraining::Options own = way.options;
        if (fs) own.files.emplace(*fs, "run" + std::to_string(r), r);
        const Model m = small_net(true, 0.3);
        SlowLinkTraining training(m, weights_of(m), way.device ? *way.device : cpu(), config,
                                  talk(std::move(transports[static_cast<size_t>(r)])), own,
                                  way.make);
        use(training, r);
        barrier(training.communicator());
      } catch (const Error& e) {
        ADD_FAILURE() << "rank " << r << ": " << e.what();
      }
    });
  }
}

// By one process whose updates are all applied behind every `every` steps; what there is after the
// last epoch.
inline std::string train_flushing(Trainer& trainer, GradientSync& sync, int64_t every) {
  TensorDataset data = stripes(kRows, 3);
  std::string bytes;
  for (int64_t e = 0; e < kEpochs; ++e) {
    EpochResult result;
    EXPECT_TRUE(trainer.train_epoch(data, result, [&](int64_t done, int64_t) {
      if (done % every == 0) sync.flush();
      return true;
    }));
    bytes = bytes_of(trainer.checkpoint(), result);
  }
  return bytes;
}

// Trains the rest of the epochs; what there is after the last one.
inline std::string train_on(Training& training, int64_t epochs) {
  TensorDataset data = stripes(kRows, 3);
  std::string bytes;
  while (training.epoch() < epochs) {
    EpochResult result;
    EXPECT_TRUE(training.train_epoch(data, result, {}));
    bytes = bytes_of(training.checkpoint(), result);
  }
  return bytes;
}

// The checkpoint of rank 0, which has asked to stop after so many steps of the first epoch.
inline Checkpoint stopped_after(int64_t steps, int ranks, const TrainerConfig& config,
                                const SlowLinkWay& way, Fs& fs) {
  Checkpoint saved;
  on_ranks_that_train(ranks, config, way, &fs, [&](SlowLinkTraining& training, int rank) {
    TensorDataset data = stripes(kRows, 3);
    EpochResult result;
    EXPECT_FALSE(training.train_epoch(
        data, result, [&](int64_t done, int64_t) { return rank != 0 || done < steps; }));
    const Checkpoint c = training.checkpoint();
    if (rank == 0) saved = c;
  });
  return saved;
}

// Of each rank, what there is after the last epoch.
inline std::vector<std::string> resumed(const Checkpoint& from, int ranks,
                                        const TrainerConfig& config, const SlowLinkWay& way,
                                        Fs& fs) {
  std::vector<std::string> bytes(static_cast<size_t>(ranks));
  on_ranks_that_train(ranks, config, way, &fs, [&](SlowLinkTraining& training, int rank) {
    training.restore(from);
    bytes[static_cast<size_t>(rank)] = train_on(training, kEpochs);
  });
  return bytes;
}

// Of rank 0.
inline std::string unbroken(int ranks, const TrainerConfig& config, const SlowLinkWay& way) {
  std::string bytes;
  on_ranks_that_train(ranks, config, way, nullptr, [&](SlowLinkTraining& training, int rank) {
    const std::string own = train_on(training, kEpochs);
    if (rank == 0) bytes = own;
  });
  return bytes;
}

}  // namespace ndtrain::testing
