// Which nodes of a step a profile has, and what they hold.
#include "framework/train/step_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "framework/graph/uses.h"
#include "framework/pipeline/profiler/step_bytes.h"
#include "tests/pipeline/profiler/profiled_step.h"

namespace ndtrain {
namespace {

using testing::node_called;
using testing::step_of;

// Parts of other parts that each one reads.
std::vector<std::set<size_t>> parts_read(const StepGraph& step, const StepNodes& nodes) {
  std::vector<std::set<size_t>> reads(nodes.nodes.size());
  const Uses<ValueId> uses = uses_of(step.graph);
  for (size_t i = 0; i < step.forward_nodes; ++i) {
    for (const ValueId v : step.graph.nodes()[i].inputs) {
      const int p = v == kNone ? -1 : uses.producer(v);
      if (p >= 0) reads[nodes.part_of[i]].insert(nodes.part_of[static_cast<size_t>(p)]);
    }
  }
  return reads;
}

TEST(StepNodes, OfAnyArchitectureEachNodeIsWithOneAndReadsEarlierOnes) {
  for (const char* name : {"tinynet", "squeezenet1_1", "mobilenet_v2", "resnet18", "vit"}) {
    const Model m = testing::small_model(name);
    for (const char* freeze : {"none", "auto"}) {
      SCOPED_TRACE(std::string(name) + ", freeze " + freeze);
      const StepGraph step = step_of(m, 2, freeze);
      const StepNodes nodes = step_nodes(step);
      ASSERT_EQ(nodes.part_of.size(), step.forward_nodes);
      EXPECT_EQ(nodes.nodes.back(), step.forward_nodes - 1);  // the loss
      EXPECT_EQ(std::set(nodes.names.begin(), nodes.names.end()).size(), nodes.nodes.size());
      for (size_t n = 0; n < nodes.nodes.size(); ++n) EXPECT_EQ(nodes.part_of[nodes.nodes[n]], n);
      const auto reads = parts_read(step, nodes);
      for (size_t n = 0; n < reads.size(); ++n) {
        ASSERT_LT(nodes.part_of[nodes.nodes[n]], nodes.nodes.size());
        if (!reads[n].empty()) {
          EXPECT_LE(*reads[n].rbegin(), n);
        }
      }
    }
  }
}

TEST(StepNodes, RunningStatisticsAreWithTheirNormalisation) {
  const StepGraph step = step_of(build_model("tinynet", {.classes = 3, .img_size = 16}), 4);
  const StepNodes nodes = step_nodes(step);
  EXPECT_LT(nodes.nodes.size(), step.forward_nodes);
  std::set<std::string> beside;
  for (size_t i = 0; i < step.forward_nodes; ++i) {
    const size_t at = nodes.nodes[nodes.part_of[i]];
    if (at == i) continue;
    EXPECT_EQ(step.graph.nodes()[at].op, "BatchNormalization");
    beside.insert(step.graph.nodes()[i].op);
  }
  EXPECT_EQ(beside, (std::set<std::string>{"Add", "Mul", "Sub"}));
}

TEST(StepNodes, ADropoutMaskIsWithWhoReadsIt) {
  const StepGraph step = step_of(testing::small_model("squeezenet1_1"), 2);
  const StepNodes nodes = step_nodes(step);
  int masks = 0;
  for (size_t i = 0; i < step.forward_nodes; ++i) {
    if (step.graph.nodes()[i].op != "DropoutMask") continue;
    ++masks;
    EXPECT_EQ(step.graph.nodes()[nodes.nodes[nodes.part_of[i]]].op, "Mul");
  }
  EXPECT_EQ(masks, 1);
}

TEST(StepNodes, ANameThatIsThereAlreadyGetsItsNumber) {
  StepGraph step = step_of(testing::flattening_model(), 2);
  for (const Node& n : step.graph.nodes().first(step.forward_nodes)) {
    step.graph.rename(n.outputs[0], "y");
  }
  EXPECT_THAT(step_nodes(step).names, ::testing::ElementsAre("y", "y#2", "y#3", "y#4", "y#5"));
}

TEST(StepBytes, ParametersAreThoseOfTheModelEachOnce) {
  const Model m = build_model("tinynet", {.classes = 3, .img_size = 16});
  for (const char* freeze : {"none", "layer1"}) {
    const StepGraph step = step_of(m, 4, freeze);
    double trained = 0, frozen = 0, params = 0;
    for (const NodeBytes& b : step_bytes(step, step_nodes(step))) {
      trained += b.trained;
      frozen += b.frozen;
    }
    double expected = 0;
    for (const std::string& name : trainable_parameters(m, freeze)) {
      expected += static_cast<double>(m.initialisers.at(name).bytes());
    }
    for (const ValueId v : step.graph.params()) {
      params += static_cast<double>(step.graph.type(v).bytes());
    }
    EXPECT_EQ(trained, expected) << freeze;
    EXPECT_EQ(trained + frozen, params) << freeze;
  }
}

// x [2, 2, 4, 4] -> c, h [2, 3, 2, 2] -> flat -> logits [2, 5].
TEST(StepBytes, AreOfWhatTravelsAndOfWhatTheBackwardPassReads) {
  const StepGraph step = step_of(testing::flattening_model(), 2);
  const StepNodes nodes = step_nodes(step);
  const std::vector<NodeBytes> bytes = step_bytes(step, nodes);
  const auto of = [&](const std::string& name) { return bytes[node_called(nodes, name)]; };
  constexpr double kFloat = 4, kX = 2 * 2 * 4 * 4 * kFloat, kH = 2 * 3 * 2 * 2 * kFloat,
                   kLogits = 2 * 5 * kFloat;
  EXPECT_EQ(of("c").activation, kH);
  EXPECT_EQ(of("flat").activation, kH);
  EXPECT_EQ(of("logits").activation, kLogits);
  EXPECT_EQ(bytes.back().activation, kFloat);  // the loss, which nobody reads
  EXPECT_EQ(of("c").saved, kX);                // rows, for the gradient of its weights
  EXPECT_EQ(of("h").saved, kH);                // also as "flat", which lies there
  EXPECT_EQ(of("flat").saved, 0);
  EXPECT_EQ(of("c").trained, 3 * 2 * 3 * 3 * kFloat);
  EXPECT_EQ(of("logits").trained, (5 * 12 + 5) * kFloat);
  EXPECT_EQ(of("c").gradients, kH);  // of c; none of x
  // Of logits, of flat, and the bias's before it has its shape.
  EXPECT_EQ(of("logits").gradients, kLogits + kH + 5 * kFloat);
}

}  // namespace
}  // namespace ndtrain
