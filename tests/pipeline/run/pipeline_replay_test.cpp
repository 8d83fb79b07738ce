// Pipelines of ranks that sleep: they take at least what they sleep on the way that is longest.
#include "framework/pipeline/run/pipeline_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "framework/comm/link_model.h"
#include "framework/comm/memory_transport.h"
#include "framework/parallel/between_ranks.h"
#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

PipelineCosts alike(int stages, double seconds) {
  PipelineCosts costs{.rows = 6};
  for (int s = 0; s < stages; ++s) {
    costs.stages.push_back({.forward_s = seconds,
                            .input_s = seconds,
                            .weight_s = seconds,
                            .exchange_s = seconds / 2,
                            .update_s = seconds / 4});
  }
  for (int s = 0; s + 1 < stages; ++s) {
    costs.edges.push_back({.activation_bytes = 24'000,
                           .gradient_bytes = 24'000,
                           .latency_s = seconds / 4,
                           .bytes_per_s = 24'000 / seconds});
  }
  return costs;
}

std::vector<double> replayed(const char* schedule, const PipeShape& shape,
                             const PipelineCosts& costs, int ranks) {
  auto transports = memory_transports(ranks);
  std::vector<double> seconds(static_cast<size_t>(ranks));
  std::vector<std::jthread> threads;
  const LinkModel link{.latency_s = costs.edges[0].latency_s,
                       .bytes_per_s = costs.edges[0].bytes_per_s};
  for (size_t r = 0; r < seconds.size(); ++r) {
    threads.emplace_back([&, r] {
      Communicator communicator(over_link(std::move(transports[r]), link), {.in_flight = 1});
      seconds[r] =
          PipelineReplay(*pipeline_schedule(schedule), shape, costs, communicator, system_clock())
              .run();
      barrier(communicator);
    });
  }
  threads.clear();
  return seconds;
}

TEST(PipelineReplay, TakesNoLessThanInVirtualTimeAndAllRanksSayTheSame) {
  for (const char* schedule : {"gpipe", "1f1b", "zb", "sync", "2bw", "async"}) {
    SCOPED_TRACE(schedule);
    const PipeShape shape{.stages = 3, .micro_batches = 3, .mini_batches = 5};
    const PipelineCosts costs = alike(3, 2e-3);
    const double predicted =
        simulate_pipeline(*pipeline_schedule(schedule), shape, costs).mini_batch_s;
    const std::vector<double> measured = replayed(schedule, shape, costs, 3);
    EXPECT_THAT(measured, ::testing::Each(measured[0]));
    EXPECT_GT(measured[0], 0.9 * predicted);
    EXPECT_LT(measured[0], 10 * predicted) << "or ranks wait for what nobody sends";
  }
}

TEST(PipelineReplay, OfReplicasShareRowsAndOfChunksLanes) {
  PipelineCosts costs = alike(2, 2e-3);
  costs.replicas = {3, 2};
  const PipeShape two{.stages = 2, .micro_batches = 2, .mini_batches = 3};
  EXPECT_GT(replayed("1f1b", two, costs, 5)[0],
            0.9 * simulate_pipeline(*pipeline_schedule("1f1b"), two, costs).mini_batch_s);
  const PipeShape four{.stages = 4, .chunks = 2, .micro_batches = 2, .mini_batches = 3};
  const PipelineCosts of_chunks = alike(4, 1e-3);
  EXPECT_GT(
      replayed("interleaved", four, of_chunks, 2)[0],
      0.9 * simulate_pipeline(*pipeline_schedule("interleaved"), four, of_chunks).mini_batch_s);
}

TEST(PipelineReplay, OfOneMiniBatchTakesUntilTheLastRankIsDone) {
  const PipelineCosts costs = alike(4, 2e-3);
  const PipeShape four{.stages = 4, .micro_batches = 2};
  EXPECT_GT(replayed("gpipe", four, costs, 4)[0],
            0.9 * simulate_pipeline(*pipeline_schedule("gpipe"), four, costs).mini_batch_s);
  const PipeShape of_chunks{.stages = 4, .chunks = 2, .micro_batches = 2};
  EXPECT_GT(
      replayed("interleaved", of_chunks, costs, 2)[0],
      0.9 * simulate_pipeline(*pipeline_schedule("interleaved"), of_chunks, costs).mini_batch_s);
}

TEST(PipelineReplay, OfOtherNumbersOfRanksIsRefused) {
  auto transports = memory_transports(1);
  Communicator one(std::move(transports[0]), {});
  const PipeShape two{.stages = 2};
  EXPECT_EQ(ndtrain::testing::error_of([&] {
              PipelineReplay(*pipeline_schedule("1f1b"), two, alike(2, 1e-3), one, system_clock());
            }),
            "a pipeline of 2 ranks, but there are 1");
}

}  // namespace
}  // namespace ndtrain
