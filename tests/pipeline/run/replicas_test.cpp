// Stages on several ranks, which share the rows of a step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "framework/pipeline/schedules/pipeline_schedule.h"
#include "tests/pipeline/run/replica_program.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_stages.h
using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = OptimizerConfig::Kind;

// Of blocks with skips and of a concatenation.
std::vector<int> inside_a_block(const StepGraph& step, int stages) {
  return cut_at(step,
                stages == 2 ? std::set<std::string>{"b1"} : std::set<std::string>{"a2", "b2"});
}

int ranks_of(const std::vector<int>& replicas) {
  int ranks = 0;
  for (const int n : replicas) ranks += n;
  return ranks;
}

std::string named(const std::vector<int>& replicas) {
  std::string name;
  for (const int n : replicas) name += (name.empty() ? "" : " x ") + std::to_string(n);
  return name;
}

// Batches of which the last one is smaller.
struct Rows {
  int64_t batch, rows;
};
constexpr Rows kBatches[] = {{17, 41}, {64, 77}};

std::vector<Bytes> by_replicas(const Network& n, const TrainerConfig& config, int64_t rows,
                               const PipelineTraining::Options& options) {
  const int ranks = ranks_of(options.replicas);
  std::vector<Bytes> bytes(static_cast<size_t>(ranks));
  by_stages(ranks, n, config, options, [&](PipelineTraining& training) {
    TensorDataset data = stripes(rows, 3);
    bytes[static_cast<size_t>(training.communicator().rank())] = train(training, data, kEpochs);
  });
  return bytes;
}

std::vector<int> delays_of(const PipelineTraining::Options& options) {
  const int stages = static_cast<int>(options.replicas.size());
  std::vector<int> delays;
  for (int s = 0; s < stages; ++s) {
    delays.push_back(pipeline_schedule(options.schedule)->delay({.stages = stages}, s));
  }
  return delays;
}

void expect_bytes_of_replica_program(const Network& n, const TrainerConfig& config, int64_t rows,
                                     const PipelineTraining::Options& options) {
  const bool late = !pipeline_schedule(options.schedule)->synchronous();
  const Bytes expected = ReplicaProgram(n, config,
                                        {.replicas = options.replicas,
                                         .cut = options.cut,
                                         .delays = delays_of(options),
                                         .drain_every = late ? options.drain_every : 1})
                             .train(rows);
  for (const Bytes& b : by_replicas(n, config, rows, options)) {
    ASSERT_EQ(b == expected, true) << "other bytes";
  }
}

TEST(Replicas, OfTwoStagesHaveTheBytesOfOneProcessThatComputesEachApart) {
  const Network n = network(skipping_net(true, 0.3));
  for (const auto& [batch, rows] : kBatches) {
    for (const int first : {1, 2, 3}) {
      for (const int second : {1, 2, 3}) {
        const std::vector<int> replicas = {first, second};
        SCOPED_TRACE(named(replicas) + ", batch " + std::to_string(batch));
        TrainerConfig config = config_by_parts(2);
        config.batch = batch;
        expect_bytes_of_replica_program(n, config, rows,
                                        {.replicas = replicas, .cut = inside_a_block});
      }
    }
  }
}

class ReplicasBy : public ::testing::TestWithParam<const char*> {};

TEST_P(ReplicasBy, ThreeStagesHaveThoseBytes) {
  const Network n = network(skipping_net(true, 0.3));
  for (const OptimizerConfig& optimizer :
       {OptimizerConfig{.kind = Kind::kSgd, .nesterov = true, .weight_decay = 1e-3},
        OptimizerConfig{.kind = Kind::kAdam}}) {
    for (const int64_t parts : {1, 3}) {
      for (const std::vector<int>& replicas :
           {std::vector<int>{2, 1, 3}, std::vector<int>{1, 2, 2}}) {
        SCOPED_TRACE(named(replicas) + ", micro-batches: " + std::to_string(parts));
        expect_bytes_of_replica_program(n, config_by_parts(parts, optimizer), kRows,
                                        {.schedule = GetParam(),
                                         .replicas = replicas,
                                         .drain_every = 2,
                                         .cut = inside_a_block});
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, ReplicasBy,
                         ::testing::Values("gpipe", "1f1b", "zb", "sync", "2bw", "async"),
                         [](const auto& schedule) { return std::string("by_") + schedule.param; });

TEST(Replicas, ExchangeAsAnyScheduleHasItWithTheSameBytes) {
  const Network n = network(skipping_net(true, 0.3));
  for (const char* schedule : {"1f1b", "async"}) {
    for (const char* sync : {"blocking", "wfbp", "ddp", "rb", "dear"}) {
      SCOPED_TRACE(std::string(schedule) + ", " + sync);
      expect_bytes_of_replica_program(
          n, config_by_parts(3), kRows,
          {.schedule = schedule, .replicas = {2, 3}, .sync = sync, .cut = inside_a_block});
    }
  }
}

// Each stage measures its own, and changes its plan between two steps.
TEST(Replicas, ByTimesThatAreMeasuredMeanwhileToo) {
  const Network n = network(skipping_net(true, 0.3));
  for (const char* schedule : {"1f1b", "async"}) {
    for (const char* sync : {"mg-wfbp", "bytescheduler", "pipedap", "auto"}) {
      SCOPED_TRACE(std::string(schedule) + ", " + sync);
      std::mutex mutex;
      std::string said;
      expect_bytes_of_replica_program(n, config_by_parts(3), kRows,
                                      {.schedule = schedule,
                                       .replicas = {2, 3},
                                       .sync = sync,
                                       .say =
                                           [&](const std::string& line) {
                                             const std::lock_guard lock(mutex);
                                             said += line + "\n";
                                           },
                                       .drain_every = 1,
                                       .cut = inside_a_block});
      for (const char* stage : {"stage 0: ", "stage 1: "}) {
        EXPECT_THAT(said, HasSubstr(std::string(stage) + sync + ": buckets: "));
      }
    }
  }
}

TEST(Replicas, RecomputeAndFrozenStagesHaveTheSameBytes) {
  const Network n = network(skipping_net(true, 0.3), {"stem", "a1", "a2"});
  for (const bool recompute : {false, true}) {
    expect_bytes_of_replica_program(
        n, config_by_parts(2), kRows,
        {.replicas = {2, 3}, .recompute = {false, recompute}, .cut = inside_a_block});
  }
}

// Rows that are computed apart and added up are, but for rounding, what they are together.
TEST(Replicas, WithoutBatchStatisticsLearnWhatOneProcessLearns) {
  for (const Network& n : {network(skipping_net(false, 0)),
                           network(skipping_net(true, 0), {"stem", "a1", "a2", "b1", "b2"})}) {
    ASSERT_TRUE(make_step_graph(bind(n.model, 2), n.trained, 0).states.empty());
    for (const Rows& of : kBatches) {
      TrainerConfig config = config_by_parts(1);
      config.batch = of.batch;
      TensorDataset data = stripes(of.rows, 3);
      Trainer one(n.model, n.trained, cpu(), config);
      EpochResult result;
      ASSERT_TRUE(one.train_epoch(data, result));
      const Checkpoint expected = one.checkpoint();
      by_stages(5, n, config, {.replicas = {3, 2}}, [&](PipelineTraining& training) {
        TensorDataset own = stripes(of.rows, 3);
        EpochResult of_it;
        ASSERT_TRUE(training.train_epoch(own, of_it));
        EXPECT_NEAR(of_it.loss, result.loss, 1e-6 * std::abs(result.loss));
        EXPECT_EQ(of_it.top1, result.top1);
        EXPECT_EQ(of_it.top5, result.top5);
        for (const auto& [name, t] : training.checkpoint().parameters) {
          const auto a = t.as<float>(), b = expected.parameters.at(name).as<float>();
          double most = 0;
          for (const float x : b) most = std::max<double>(most, std::abs(x));
          for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-6 * most);
        }
      });
    }
  }
}

TEST(Replicas, ResumedHaveTheBytesOfAnUnbrokenTraining) {
  const Network n = network(skipping_net(true, 0.3));
  const TrainerConfig config = config_by_parts(2);
  for (const char* schedule : {"1f1b", "async"}) {
    const PipelineTraining::Options options{
        .schedule = schedule, .replicas = {2, 1}, .sync = "dear", .cut = inside_a_block};
    const Bytes unbroken = by_replicas(n, config, kRows, options)[0];
    std::vector<Checkpoint> between(3);
    by_stages(3, n, config, options, [&](PipelineTraining& training) {
      (void)train(training, 1);
      between[static_cast<size_t>(training.communicator().rank())] = training.checkpoint();
    });
    by_stages(3, n, config, options, [&](PipelineTraining& training) {
      training.restore(between[static_cast<size_t>(training.communicator().rank())]);
      EXPECT_EQ(train(training, 1)[0], unbroken[1]);
    });
  }
}

std::string refused(const Network& n, const TrainerConfig& config,
                    const PipelineTraining::Options& options, int ranks) {
  auto transports = memory_transports(ranks);
  return error_of([&] {
    PipelineTraining training(n.model, n.trained, cpu(), config, talk(std::move(transports[0])),
                              options);
    TensorDataset data = stripes(kRows, 3);
    EpochResult result;
    (void)training.train_epoch(data, result);
  });
}

TEST(Replicas, OfTooFewRowsOrOtherRanksAreRefused) {
  const Network n = network(skipping_net(true, 0));
  TrainerConfig config = config_by_parts(1);
  EXPECT_THAT(refused(n, config, {.replicas = {2, 2}, .cut = inside_a_block}, 3),
              HasSubstr("stages of 4 ranks in all, but there are 3"));
  EXPECT_THAT(refused(n, config, {.replicas = {3, 0}, .cut = inside_a_block}, 3),
              HasSubstr("a stage on 0 ranks"));
  EXPECT_THAT(refused(n, config, {.schedule = "interleaved", .chunks = 2, .replicas = {2, 1}}, 3),
              HasSubstr("2 stages of a rank"));
  config.batch = 5;
  EXPECT_THAT(refused(n, config, {.replicas = {1, 3}, .cut = inside_a_block}, 4),
              AllOf(HasSubstr("a step of 5 photos for a stage on 3 ranks"),
                    HasSubstr("batch statistics need"), HasSubstr("choose another batch")));
  config.batch = 23;  // 70 rows: the last step has one
  EXPECT_THAT(refused(n, config, {.replicas = {1, 2}, .cut = inside_a_block}, 3),
              HasSubstr("a step of 1 photos"));
}

// The second half has images in its second axis.
TEST(Replicas, OfValuesThatDoNotHaveImagesFirstAreRefusedUnlessAllHaveAsMany) {
  Model m = skipping_net(false, 0);
  auto& gemm = m.nodes.back();
  m.nodes.insert(m.nodes.end() - 1,
                 {"Transpose", {gemm.inputs[0]}, {"t1"}, {{"perm", Ints{1, 0}}}});
  m.nodes.insert(m.nodes.end() - 1, {"Relu", {"t1"}, {"t2"}, {}});
  m.nodes.insert(m.nodes.end() - 1, {"Transpose", {"t2"}, {"t3"}, {{"perm", Ints{1, 0}}}});
  m.nodes.back().inputs[0] = "t3";
  const Network n = network(m);
  const auto between = [](const StepGraph& step, int) { return cut_at(step, {"t2"}); };
  EXPECT_THAT(refused(n, config_by_parts(1), {.replicas = {2, 1}, .cut = between}, 3),
              HasSubstr("'t1' goes from stage 0 on 2 ranks to stage 1 on 1, but its first axis"));
  const auto alike =
      by_replicas(n, config_by_parts(1), kRows, {.replicas = {2, 2}, .cut = between});
  EXPECT_EQ(alike[0], alike[3]);
}

}  // namespace
}  // namespace ndtrain
