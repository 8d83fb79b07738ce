// Trainings by stages, against one process that computes the same parts one after the other: the
// same bytes.
#include "framework/pipeline/run/pipeline_training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "framework/pipeline/run/pipeline_cut.h"
#include "framework/pipeline/run/stage_cuts.h"
#include "tests/pipeline/run/training_by_stages.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_stages.h

using Kind = OptimizerConfig::Kind;

struct Way {
  const char* schedule;
  int chunks = 1;
};

class PipelineBytes : public ::testing::TestWithParam<Way> {};

// 70 rows in batches of 24: the last step of an epoch has 22, in parts of 2 or 3 where there are 8.
TEST_P(PipelineBytes, AreThoseOfOneProcessThatAddsUpTheSameParts) {
  const Network n = network(skipping_net(true, 0.3));
  for (const int64_t parts : {1, 2, 4, 8}) {
    const TrainerConfig config = config_by_parts(parts);
    const Bytes expected = alone(n, config);
    for (const int ranks : {1, 2, 3, 4}) {
      const auto cut = [&](const StepGraph& step, int stages) {
        return random_cut(step, stages, static_cast<uint64_t>(100 * int64_t{ranks} + parts));
      };
      SCOPED_TRACE(std::to_string(ranks) + " ranks, micro-batches: " + std::to_string(parts));
      for (const Bytes& b :
           by_stages(ranks, n, config,
                     {.schedule = GetParam().schedule, .chunks = GetParam().chunks, .cut = cut})) {
        ASSERT_EQ(b == expected, true) << "other bytes";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, PipelineBytes,
                         ::testing::Values(Way{"gpipe"}, Way{"1f1b"}, Way{"interleaved"},
                                           Way{"interleaved", 2}, Way{"interleaved", 3}, Way{"zb"},
                                           Way{"sync"}),
                         [](const auto& way) {
                           return way.param.schedule + std::to_string(way.param.chunks);
                         });

void expect_bytes_of_one_process(const Network& n, const TrainerConfig& config, int ranks,
                                 const PipelineTraining::Options& options) {
  const Bytes expected = alone(n, config);
  for (const Bytes& b : by_stages(ranks, n, config, options)) {
    ASSERT_EQ(b == expected, true) << "other bytes";
  }
}

TEST(PipelineTraining, OfAnyOptimizerAndWithoutStatisticsHasTheBytesOfOneProcess) {
  const Network n = network(skipping_net(false, 0));
  for (const OptimizerConfig& optimizer :
       {OptimizerConfig{.kind = Kind::kSgd, .nesterov = true, .weight_decay = 1e-3},
        OptimizerConfig{.kind = Kind::kAdamW, .amsgrad = true, .weight_decay = 1e-2},
        OptimizerConfig{.kind = Kind::kRmsProp, .centered = true},
        OptimizerConfig{.kind = Kind::kAdam, .ema = 0.8}}) {
    for (const int64_t parts : {3, 5}) {
      for (const char* schedule : {"1f1b", "zb"}) {
        SCOPED_TRACE(std::string(schedule) + ", micro-batches: " + std::to_string(parts));
        expect_bytes_of_one_process(n, config_by_parts(parts, optimizer), 3,
                                    {.schedule = schedule});
      }
    }
  }
}

TEST(PipelineTraining, WithFrozenStagesInFrontHasTheBytesOfOneProcess) {
  const Network n = network(skipping_net(true, 0.3), {"stem", "a1", "a2"});
  for (const char* schedule : {"gpipe", "1f1b", "zb", "sync"}) {
    SCOPED_TRACE(schedule);
    expect_bytes_of_one_process(n, config_by_parts(3), 4, {.schedule = schedule});
  }
}

TEST(PipelineTraining, InSixteenBitsHasTheBytesOfOneProcess) {
  TrainerConfig config = config_by_parts(3);
  config.compute = DType::kBF16;
  expect_bytes_of_one_process(network(skipping_net(true, 0.3)), config, 3, {.schedule = "zb"});
}

// The gradient of what the first stage makes goes from the fourth one, which adds it up last, to
// the second one, of which the fourth one needs nothing.
TEST(PipelineTraining, AGradientGoesBetweenStagesThatReadTheSame) {
  const Network n = network(skipping_net(false, 0));
  const auto cut = [](const StepGraph& step, int) { return cut_at(step, {"a1", "r1", "s1"}); };
  const StepGraph step = make_step_graph(bind(n.model, 4), n.trained, 0);
  const PipeShape shape = shape_of(make_stages(step, cut(step, 4)), 1, 2);
  EXPECT_EQ(std::ranges::count(shape.edges, StageEdge{1, 3, true, false}), 1);
  EXPECT_EQ(std::ranges::count(shape.edges, StageEdge{0, 3, false, true}), 1);
  for (const char* schedule : {"gpipe", "1f1b", "zb", "sync"}) {
    SCOPED_TRACE(schedule);
    expect_bytes_of_one_process(n, config_by_parts(4), 4, {.schedule = schedule, .cut = cut});
    expect_bytes_of_one_process(n, config_by_parts(4), 2,
                                {.schedule = "interleaved", .chunks = 2, .cut = cut});
  }
}

// Three convolutions read the stem, and any of them may be in front: where a gradient is added up
// does not follow from the order of the nodes.
Model branching_net() {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 1, kSide, kSide}}};
  m.outputs = {"logits"};
  const auto conv = [&](const std::string& name, const std::string& in, int64_t from) {
    add_small_weight(m, name + ".w", {4, from, 3, 3});
    m.nodes.push_back({"Conv", {in, name + ".w"}, {name}, {{"pads", Ints{1, 1, 1, 1}}}});
  };
  conv("stem", "x", 1);
  m.nodes.push_back({"Relu", {"stem"}, {"r"}, {}});
  for (const char* branch : {"a", "b", "c"}) conv(branch, "r", 4);
  m.nodes.push_back({"Sum", {"a", "b", "c"}, {"sum"}, {}});
  m.nodes.push_back({"GlobalAveragePool", {"sum"}, {"pool"}, {}});
  m.nodes.push_back({"Flatten", {"pool"}, {"flat"}, {}});
  add_small_weight(m, "fc.w", {3, 4});
  m.initialisers["fc.b"] = Tensor({DType::kF32, {3}});
  m.nodes.push_back({"Gemm", {"flat", "fc.w", "fc.b"}, {"logits"}, {{"transB", int64_t{1}}}});
  return m;
}

TEST(PipelineTraining, BranchesAreCutInAnyOrderWithTheBytesOfOneProcess) {
  const Network n = network(branching_net());
  const TrainerConfig config = config_by_parts(2);
  const Bytes expected = alone(n, config);
  for (const std::map<std::string, int>& branches :
       std::vector<std::map<std::string, int>>{{{"a", 1}, {"b", 1}, {"c", 0}},
                                               {{"a", 1}, {"b", 0}, {"c", 1}},
                                               {{"a", 2}, {"b", 1}, {"c", 0}},
                                               {{"a", 1}, {"b", 0}, {"c", 2}},
                                               {{"a", 0}, {"b", 2}, {"c", 1}}}) {
    int last = 0;
    for (const auto& [_, stage] : branches) last = std::max(last, stage);
    const auto cut = [&](const StepGraph& step, int) {
      const StepNodes nodes = step_nodes(step);
      const auto behind = std::ranges::find(nodes.names, "sum") - nodes.names.begin();
      std::vector<int> stage_of;
      for (const size_t part : nodes.part_of) {
        const auto branch = branches.find(nodes.names[part]);
        const bool is_behind = static_cast<std::ptrdiff_t>(part) >= behind;
        stage_of.push_back(branch != branches.end() ? branch->second : is_behind ? last : 0);
      }
      return stage_of;
    };
    for (const char* schedule : {"1f1b", "zb", "gpipe"}) {
      for (const Bytes& b : by_stages(last + 1, n, config, {.schedule = schedule, .cut = cut})) {
        EXPECT_TRUE(b == expected) << schedule << ", c in stage " << branches.at("c");
      }
    }
  }
}

// Of the weights, and of their average.
void expect_model_of_one_process(const OptimizerConfig& optimizer) {
  const Network n = network(skipping_net(true, 0.3));
  const TrainerConfig config = config_by_parts(2, optimizer);
  TensorDataset data = stripes(kRows, 3), other = stripes(20, 9);
  Trainer one(n.model, n.trained, cpu(), config);
  EpochResult expected;
  ASSERT_TRUE(one.train_epoch(data, expected));
  const Evaluation of_one = one.evaluate(other);
  const Model& model_of_one = one.model();
  by_stages(3, n, config, {}, [&](PipelineTraining& training) {
    TensorDataset own = stripes(kRows, 3), own_other = stripes(20, 9);
    EpochResult result;
    EXPECT_TRUE(training.train_epoch(own, result));
    EXPECT_EQ(result.loss, expected.loss);
    EXPECT_EQ(result.top1, expected.top1);
    EXPECT_EQ(result.top5, expected.top5);
    EXPECT_EQ(result.lr, expected.lr);
    const Evaluation e = training.evaluate(own_other);
    EXPECT_EQ(e.loss, of_one.loss);
    EXPECT_EQ(e.true_probability, of_one.true_probability);
    for (const auto& [name, value] : training.model().initialisers) {
      const Tensor& there = model_of_one.initialisers.at(name);
      EXPECT_EQ(std::memcmp(value.data(), there.data(), value.bytes()), 0) << name;
    }
  });
}

TEST(PipelineTraining, EvaluatesAndHasTheModelOfOneProcess) {
  expect_model_of_one_process({});
  expect_model_of_one_process({.ema = 0.8});
}

TEST(PipelineTraining, SaysWhatEachStageHas) {
  const Network n = network(skipping_net(true, 0));
  by_stages(2, n, config_by_parts(2), {.schedule = "interleaved", .chunks = 2},
            [&](PipelineTraining& training) {
              const auto& stages = training.stages();
              ASSERT_EQ(stages.size(), 4U);
              int64_t parameters = 0;
              for (size_t s = 0; s < stages.size(); ++s) {
                EXPECT_EQ(stages[s].rank, static_cast<int>(s % 2));
                EXPECT_GT(stages[s].nodes, 0U);
                EXPECT_EQ(stages[s].sent_bytes > 0, s + 1 < stages.size());
                parameters += stages[s].parameters;
              }
              EXPECT_EQ(stages.front().first, "stem");
              int64_t all = 0;
              for (const std::string& name : n.trained) {
                all += n.model.initialisers.at(name).shape().count();
              }
              EXPECT_EQ(parameters, all);
              EXPECT_EQ(training.parameter_count(), all);
            });
}

}  // namespace
}  // namespace ndtrain
