#include "framework/pipeline/run/stage_cuts.h"

#include <gtest/gtest.h>

#include "tests/pipeline/run/training_by_stages.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_stages.h

StepGraph step_of(const Network& n) { return make_step_graph(bind(n.model, 4), n.trained, 0); }

std::map<std::string, int> by_name(const StepGraph& step, const std::vector<int>& stage_of) {
  std::map<std::string, int> stages;
  for (size_t i = 0; i < stage_of.size(); ++i) {
    stages[step.graph.value(step.graph.nodes()[i].outputs[0]).name] = stage_of[i];
  }
  return stages;
}

TEST(StageCuts, OfAnyNumberOfStagesLeaveNoneEmptyAndNoStatisticApart) {
  const StepGraph step = step_of(network(skipping_net(true, 0.3)));
  for (int stages = 1; stages <= 16; ++stages) {
    const std::vector<int> stage_of = cut_by_operations(step, stages);
    ASSERT_EQ(std::ssize(make_stages(step, stage_of)), stages);
    const auto of = by_name(step, stage_of);
    for (const char* norm : {"stem.bn", "a1.bn", "b2.bn"}) {
      EXPECT_EQ(of.at(std::string(norm) + ".var.next"), of.at(norm)) << stages << " stages";
    }
  }
}

TEST(StageCuts, AreAsEqualAsWhatTheNodesCompute) {
  // Of four convolutions of the same size, and a small one in front, two are on either side.
  const StepGraph step = step_of(network(skipping_net(false, 0)));
  const auto of = by_name(step, cut_by_operations(step, 2));
  EXPECT_EQ(of.at("a2"), 0);
  EXPECT_EQ(of.at("b1"), 1);
}

TEST(StageCuts, OfAPlanAreThoseOfItsNamesWithWhatBelongsToThem) {
  const StepGraph step = step_of(network(skipping_net(true, 0.3)));
  std::vector<std::vector<std::string>> names(1);
  for (const std::string& name : step_nodes(step).names) {
    if (name == "s1" || name == "b2") names.emplace_back();
    names.back().push_back(name);
  }
  const std::vector<int> stage_of = cut_by_names(step, names);
  EXPECT_EQ(stage_of, cut_at(step, {"s1", "b2"}));
  const auto of = by_name(step, stage_of);
  EXPECT_EQ(of.at("stem.bn.var.next"), 0);
  EXPECT_EQ(of.at("b2.bn.var.next"), 2);
}

}  // namespace
}  // namespace ndtrain
