// Stages that compute a forward pass again before they take it back: the same bytes, and less
// memory.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/pipeline/run/delayed_program.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_stages.h

struct RecomputeWay {
  const char* schedule;
  int ranks = 3, chunks = 1;
};

class Recompute : public ::testing::TestWithParam<RecomputeWay> {
 protected:
  // Of each rank: the bytes after each epoch; and the memory of its values.
  struct Outcome {
    std::vector<Bytes> bytes;
    std::vector<int64_t> memory;
  };
  static Outcome outcome(const Network& n, const TrainerConfig& config,
                         const std::vector<bool>& recompute) {
    const RecomputeWay way = GetParam();
    Outcome o{.bytes = std::vector<Bytes>(static_cast<size_t>(way.ranks)),
              .memory = std::vector<int64_t>(static_cast<size_t>(way.ranks))};
    by_stages(way.ranks, n, config,
              {.schedule = way.schedule, .chunks = way.chunks, .recompute = recompute},
              [&](PipelineTraining& training) {
                const auto rank = static_cast<size_t>(training.communicator().rank());
                o.bytes[rank] = train(training);
                o.memory[rank] = training.value_bytes();
                int64_t parameters = 0;
                for (const PipelineTraining::StageSize& s : training.stages()) {
                  if (s.rank == training.communicator().rank()) parameters += s.parameters;
                }
                EXPECT_GT(training.memory_bytes(), o.memory[rank] + 8 * parameters);
              });
    return o;
  }
};

// Dropout, running statistics, and steps whose last one has fewer rows.
TEST_P(Recompute, LeavesTheBytesAndTakesLessMemory) {
  const RecomputeWay way = GetParam();
  const auto stages = static_cast<size_t>(way.ranks * way.chunks);
  for (const bool statistics : {true, false}) {
    const Network n = network(skipping_net(statistics, 0.3));
    TrainerConfig config = config_by_parts(way.schedule == std::string("sync") ? 2 : 6);
    const Outcome kept = outcome(n, config, {});
    const Outcome again = outcome(n, config, std::vector<bool>(stages, true));
    EXPECT_EQ(again.bytes == kept.bytes, true) << "other bytes";
    std::vector<bool> one(stages);
    one[0] = true;
    const Outcome first = outcome(n, config, one);
    EXPECT_EQ(first.bytes == kept.bytes, true) << "other bytes";
    const auto sum = [](const std::vector<int64_t>& of) {
      return std::accumulate(of.begin(), of.end(), int64_t{0});
    };
    if (way.schedule == std::string("sync")) continue;  // has one micro-batch at a time anyway
    EXPECT_LT(sum(again.memory), sum(kept.memory));
    EXPECT_LT(first.memory[0], kept.memory[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, Recompute,
                         ::testing::Values(RecomputeWay{"gpipe"}, RecomputeWay{"1f1b"},
                                           RecomputeWay{"interleaved", 2, 2}, RecomputeWay{"zb"},
                                           RecomputeWay{"sync"}, RecomputeWay{"async"},
                                           RecomputeWay{"2bw"}),
                         [](const auto& way) {
                           return std::string(way.param.schedule == std::string("2bw")
                                                  ? "two_buffered"
                                                  : way.param.schedule);
                         });

TEST(RecomputeOfStages, AsManyAsThereAreIsSaid) {
  const Network n = network(skipping_net(true, 0));
  EXPECT_EQ(error_of([&] {
              PipelineTraining(n.model, n.trained, cpu(), config_by_parts(2),
                               talk(std::move(memory_transports(1)[0])),
                               {.recompute = {true, true}});
            }),
            "pipeline: something is said of 2 stages, and there are 1");
}

}  // namespace
}  // namespace ndtrain
