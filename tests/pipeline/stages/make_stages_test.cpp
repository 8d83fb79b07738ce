// A step that is cut anywhere, against the step as a whole: the same bytes on a device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "framework/core/rng.h"
#include "framework/pipeline/stages/stage.h"
#include "framework/runtime/executor.h"
#include "framework/train/head.h"
#include "models/zoo.h"
#include "tests/graph/model_builder.h"
#include "tests/graph/random_graph.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using testing::cpu;
using ::testing::HasSubstr;

constexpr int64_t kBatch = 3;

struct Network {
  const char* name;
  int64_t img_size;
  const char* freeze = "none";
};

StepGraph step_of(const Network& n, DType compute = DType::kF32) {
  const Model m = build_model(n.name, {.classes = 3, .img_size = n.img_size});
  return make_step_graph(bind(m, kBatch), trainable_parameters(m, n.freeze), 0.1, compute);
}

using Values = std::map<ValueId, Tensor>;  // of the step

Values given_to(const StepGraph& step) {
  Values all;
  for (ValueId v : step.features) {
    all[v] = testing::random_tensor(step.graph.type(v), 7, step.graph.value(v).name);
  }
  all[step.labels] = Tensor::i64({0, 2, 1});
  all[step.weights] = Tensor::of(DType::kF32, {kBatch}, std::vector<float>(kBatch, 1.0F / kBatch));
  if (step.dropout_seed != kNone) all[step.dropout_seed] = Tensor::i64({5, 1});
  return all;
}

// With parameters that are given at every run, as a training has them.
std::vector<Tensor> run(const Graph& g, const StepGraph& step, std::vector<Tensor> inputs) {
  std::set<std::string> trained;
  for (ValueId v : step.trainable) trained.insert(step.graph.value(v).name);
  std::vector<ValueId> bound;
  for (ValueId v : g.params()) {
    if (!trained.contains(g.value(v).name)) continue;
    bound.push_back(v);
    inputs.push_back(g.value(v).data);
  }
  const Plan plan(g, cpu(), {.bound_params = bound});
  return Executor(plan).run(inputs);
}

void run(const StageGraph& part, const StepGraph& step, Values& known) {
  if (part.graph.nodes().empty()) return;
  std::vector<Tensor> inputs;
  for (ValueId v : part.inputs) inputs.push_back(known.at(v));
  const std::vector<Tensor> outputs = run(part.graph, step, std::move(inputs));
  for (size_t i = 0; i < outputs.size(); ++i) known[part.outputs[i]] = outputs[i];
}

// What a stage may know: what the data set gives, and what it was sent.
void receive(const std::vector<StagePort>& ports, const std::vector<Values>& stages, Values& own) {
  for (const StagePort& port : ports) {
    own[port.value] = stages[static_cast<size_t>(port.peer)].at(port.value);
  }
}

void expect_whole_step(const StepGraph& step, const std::vector<Stage>& stages, bool in_parts) {
  std::vector<Values> of(stages.size(), given_to(step));
  for (size_t s = 0; s < stages.size(); ++s) {
    receive(stages[s].activations_in, of, of[s]);
    run(stages[s].forward, step, of[s]);
  }
  for (size_t s = stages.size(); s-- > 0;) {
    receive(stages[s].gradients_in, of, of[s]);
    if (in_parts) {
      run(stages[s].backward_input, step, of[s]);
      run(stages[s].backward_weight, step, of[s]);
    } else {
      run(stages[s].backward, step, of[s]);
    }
  }
  std::vector<Tensor> inputs;
  for (ValueId v : step.graph.inputs()) inputs.push_back(given_to(step).at(v));
  const std::vector<Tensor> whole = run(step.graph, step, inputs);
  for (size_t k = 0; k < whole.size(); ++k) {
    const ValueId v = step.graph.outputs()[k];
    const auto has = std::ranges::find_if(of, [&](const Values& o) { return o.contains(v); });
    ASSERT_NE(has, of.end()) << "output " << k;
    const Tensor& cut = has->at(v);
    ASSERT_EQ(cut.type(), whole[k].type());
    ASSERT_EQ(std::memcmp(cut.data(), whole[k].data(), cut.bytes()), 0) << "output " << k;
  }
}

std::vector<int> random_stages(size_t nodes, int stages, Rng& rng) {
  std::set<size_t> begins;
  while (std::ssize(begins) < stages - 1) begins.insert(1 + rng.next_below(nodes - 1));
  std::vector<int> stage_of(nodes);
  for (size_t i = 0; i < nodes; ++i) {
    stage_of[i] = static_cast<int>(std::distance(begins.begin(), begins.upper_bound(i)));
  }
  return stage_of;
}

class Stages : public ::testing::TestWithParam<Network> {};

TEST_P(Stages, OfAnyCutTogetherGiveTheBytesOfTheStep) {
  const StepGraph step = step_of(GetParam());
  Rng rng(1, GetParam().name);
  for (int stages = 1; stages <= 4; ++stages) {
    for (int round = 0; round < (stages == 1 ? 1 : 2); ++round) {
      const std::vector<int> stage_of = random_stages(step.forward_nodes, stages, rng);
      SCOPED_TRACE(::testing::PrintToString(stage_of));
      const std::vector<Stage> cut = make_stages(step, stage_of);
      ASSERT_EQ(std::ssize(cut), stages);
      ASSERT_NO_FATAL_FAILURE(expect_whole_step(step, cut, round == 1));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Networks, Stages,
    ::testing::Values(Network{"tinynet", 48}, Network{"resnet18", 32}, Network{"squeezenet1_1", 64},
                      Network{"mobilenet_v2", 32}, Network{"resnet18", 32, "layer2"}),
    [](const auto& network) {
      const std::string freeze = network.param.freeze;
      return std::string(network.param.name) + (freeze == "none" ? "" : "_behind_" + freeze);
    });

TEST(MakeStages, AValueGoesStraightToWhoeverReadsItAndItsGradientComesBackThroughThem) {
  const StepGraph step = step_of({"resnet18", 32});
  // A cut into many: blocks with a skip connection are in several stages.
  Rng rng(3, "skips");
  int skips = 0;
  for (int round = 0; round < 10; ++round) {
    const std::vector<Stage> cut = make_stages(step, random_stages(step.forward_nodes, 6, rng));
    for (size_t s = 0; s < cut.size(); ++s) {
      for (const StagePort& in : cut[s].activations_in) {
        const auto& out = cut[static_cast<size_t>(in.peer)].activations_out;
        EXPECT_EQ(std::ranges::count(out, StagePort{in.value, static_cast<int>(s)}), 1);
        EXPECT_LT(in.peer, static_cast<int>(s));
        skips += in.peer + 1 < static_cast<int>(s);
      }
      for (const StagePort& in : cut[s].gradients_in) {
        const auto& out = cut[static_cast<size_t>(in.peer)].gradients_out;
        EXPECT_EQ(std::ranges::count(out, StagePort{in.value, static_cast<int>(s)}), 1);
        EXPECT_GT(in.peer, static_cast<int>(s));
      }
    }
  }
  EXPECT_GT(skips, 0);
}

TEST(MakeStages, LabelsGoToTheLastAloneAndFrozenOnesOnlyRunForward) {
  const StepGraph step = step_of({"resnet18", 32, "layer3"});
  const std::vector<double> alike(step.forward_nodes, 1.0);
  const std::vector<Stage> cut = make_stages(step, balanced_stages(alike, 4));
  for (const Stage& s : cut) {
    const bool last = &s == &cut.back();
    EXPECT_EQ(std::ranges::count(s.forward.inputs, step.labels), last ? 1 : 0);
    EXPECT_EQ(s.trains(), !s.parameters.empty() || last);
    EXPECT_EQ(s.saved_bytes > 0, s.trains());
  }
  EXPECT_FALSE(cut.front().trains());
  EXPECT_TRUE(cut.front().gradients_in.empty());
  size_t parameters = 0;
  for (const Stage& s : cut) parameters += s.parameters.size();
  EXPECT_EQ(parameters, step.trainable.size());
}

std::string why(const StepGraph& step, const std::vector<int>& stage_of) {
  return testing::error_of([&] { make_stages(step, stage_of); });
}

TEST(MakeStages, WhatCannotBeIsRefusedByName) {
  const StepGraph step = step_of({"tinynet", 48});
  std::vector<int> stage_of(step.forward_nodes, 1);
  stage_of[0] = 0;
  EXPECT_EQ(why(step, stage_of), "no error");
  EXPECT_THAT(why(step, {0, 1}), HasSubstr("a stage for 2 nodes"));
  std::vector<int> back = stage_of;
  std::swap(back[0], back[1]);
  EXPECT_THAT(why(step, back), AllOf(HasSubstr("of stage 0 reads"), HasSubstr("of stage 1"),
                                     HasSubstr("an edge may not go back")));
  std::vector<int> gap = stage_of;
  for (int& s : gap) s *= 2;
  EXPECT_THAT(why(step, gap), HasSubstr("stage 1 has no node; stage 2 has"));
  for (int& s : gap) s = std::numeric_limits<int>::max();
  EXPECT_THAT(why(step, gap), HasSubstr("stage 0 has no node; stage 2147483647 has"));
  std::vector<int> early = stage_of;
  early.back() = 0;
  EXPECT_THAT(why(step, early), HasSubstr("has to be the last one"));
  EXPECT_THAT(why(step_of({"tinynet", 48}, DType::kF16), stage_of), HasSubstr("not in f16"));
}

TEST(MakeStages, AParameterThatTwoStagesWouldTrainIsNamed) {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 4}}};
  m.outputs = {"logits"};
  m.initialisers["w"] = testing::random_tensor({DType::kF32, {4, 4}}, 1, "w");
  m.nodes.push_back({"MatMul", {"x", "w"}, {"h"}, {}});
  m.nodes.push_back({"Relu", {"h"}, {"r"}, {}});
  m.nodes.push_back({"MatMul", {"r", "w"}, {"logits"}, {}});
  const StepGraph step = make_step_graph(bind(m, kBatch), std::vector<std::string>{"w"}, 0);
  std::vector<int> stage_of(step.forward_nodes, 1);
  stage_of[0] = 0;
  EXPECT_THAT(why(step, stage_of), HasSubstr("'w' is trained in stage 0 and in stage 1"));
}

}  // namespace
}  // namespace ndtrain
