// Stages of a plan as models, against the model as a whole: the same bytes on the cpu plugin.
#include "framework/pipeline/planner/stage_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "framework/runtime/executor.h"
#include "tests/pipeline/profiler/profiled_step.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

constexpr int64_t kStageRows = 2;

using Values = std::map<std::string, Tensor>;

// The outputs of `m`, with what it reads in `values`, where they go.
void run(const Model& m, Values& values) {
  const Graph g = bind(m, kStageRows);
  const Plan plan(g, testing::cpu());
  std::vector<Tensor> inputs;
  for (const ValueId v : plan.bindings()) inputs.push_back(values.at(g.value(v).name));
  const std::vector<Tensor> outputs = Executor(plan).run(inputs);
  for (size_t k = 0; k < outputs.size(); ++k) values[m.outputs[k]] = outputs[k];
}

Values rows_of(const Model& m) {
  Values values;
  const Graph g = bind(m, kStageRows);
  for (const ValueId v : g.inputs()) {
    values[g.value(v).name] = testing::random_tensor(g.type(v), 5, g.value(v).name);
  }
  return values;
}

std::vector<std::string> names_of(const Model& m) {
  return step_nodes(testing::step_of(m, kStageRows)).names;
}

// Stages that begin at these shares of the nodes in their order.
PipelinePlan cut_at(const std::vector<std::string>& names, const std::vector<double>& shares) {
  PipelinePlan plan{.costs = "measured", .schedule = "async", .sync = "auto"};
  plan.stages.resize(shares.size());
  for (size_t i = 0, s = 0; i < names.size(); ++i) {
    const auto begins = [&](size_t stage) {
      return static_cast<size_t>(shares[stage] * static_cast<double>(names.size()));
    };
    while (s + 1 < shares.size() && i >= begins(s + 1)) ++s;
    plan.stages[s].nodes.push_back(names[i]);
  }
  return plan;
}

TEST(StageModels, OneAfterTheOtherTheyAreTheModel) {
  for (const char* name : {"tinynet", "squeezenet1_1", "resnet18", "mobilenet_v2", "vit"}) {
    SCOPED_TRACE(name);
    const Model m = testing::small_model(name);
    const std::vector<std::string> names = names_of(m);
    Values whole = rows_of(m);
    run(m, whole);
    for (const std::vector<double>& shares :
         {std::vector<double>{0, 0.5}, {0, 0.21, 0.43, 0.77}, {0, 0.1, 0.15, 0.2, 0.9}}) {
      Values staged = rows_of(m);
      const std::vector<Model> stages = stage_models(m, cut_at(names, shares), names);
      ASSERT_EQ(stages.size(), shares.size());
      for (const Model& stage : stages) run(stage, staged);
      for (const std::string& output : m.outputs) {
        ASSERT_EQ(staged.at(output).type(), whole.at(output).type());
        EXPECT_EQ(std::memcmp(staged.at(output).data(), whole.at(output).data(),
                              whole.at(output).bytes()),
                  0);
      }
    }
  }
}

// x -> a -> b -> y = a + b, and y reads x too: a skips a stage, and so does the input.
Model skipping_model() {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 4}}};
  m.outputs = {"logits"};
  for (const char* w : {"wa", "wb", "wl"}) testing::add_weight(m, w, {4, 4});
  m.nodes = {{"MatMul", {"x", "wa"}, {"a"}, {}},
             {"MatMul", {"a", "wb"}, {"b"}, {}},
             {"Add", {"a", "b"}, {"ab"}, {}},
             {"Add", {"ab", "x"}, {"y"}, {}},
             {"MatMul", {"y", "wl"}, {"logits"}, {}}};
  return m;
}

PipelinePlan three_stages() {
  PipelinePlan plan{.costs = "measured", .schedule = "async", .sync = "auto"};
  const std::vector<std::string> names = names_of(skipping_model());
  plan.stages = {
      {.nodes = {"a"}}, {.nodes = {"b"}}, {.nodes = {"ab", "y", "logits", names.back()}}};
  return plan;
}

TEST(StageModels, ValuesGoStraightToWhoReadsThem) {
  const Model m = skipping_model();
  const std::vector<Model> stages = stage_models(m, three_stages(), names_of(m));
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_EQ(stages[0].outputs, std::vector<std::string>{"a"});
  EXPECT_EQ(stages[1].outputs, std::vector<std::string>{"b"});
  ASSERT_EQ(stages[2].inputs.size(), 3u);
  EXPECT_EQ(stages[2].inputs[0].name, "a");
  EXPECT_EQ(stages[2].inputs[1].name, "b");
  EXPECT_EQ(stages[2].inputs[2].name, "x");
  EXPECT_EQ(stages[2].inputs[0].dims, (std::vector<int64_t>{kBatch, 4}));
  EXPECT_EQ(stages[0].initialisers.size(), 1u);
  Values whole = rows_of(m), staged = rows_of(m);
  run(m, whole);
  for (const Model& stage : stages) run(stage, staged);
  EXPECT_EQ(staged.at("logits").to_doubles(), whole.at("logits").to_doubles());
}

TEST(StageModels, APlanOfAnotherModelIsRefusedByItsNode) {
  const Model m = skipping_model();
  const std::vector<std::string> names = names_of(m);
  const auto why = [&](const PipelinePlan& plan) {
    return error_of([&] { stage_models(m, plan, names); });
  };
  PipelinePlan plan = three_stages();
  plan.stages[1].nodes.emplace_back("conv7");
  EXPECT_THAT(why(plan), HasSubstr("node 'conv7' of stage 1 is not in this model"));
  plan = three_stages();
  plan.stages[2].nodes.erase(plan.stages[2].nodes.begin());
  EXPECT_THAT(why(plan), HasSubstr("node 'ab' of this model is in no stage"));
  plan = three_stages();
  std::swap(plan.stages[0].nodes, plan.stages[1].nodes);
  EXPECT_THAT(why(plan), HasSubstr("'b' of stage 0 reads what stage 1 makes"));
  plan = three_stages();
  plan.stages.push_back({.nodes = {plan.stages[2].nodes.back()}});
  plan.stages[2].nodes.pop_back();
  EXPECT_THAT(why(plan), HasSubstr("stage 3 has no node of the model"));
}

}  // namespace
}  // namespace ndtrain
