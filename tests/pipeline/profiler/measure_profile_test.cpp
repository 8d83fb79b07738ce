// Profiles that are measured on the cpu plugin.
#include "framework/pipeline/profiler/measure_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "framework/core/limits.h"
#include "framework/pipeline/planner/graph_text.h"
#include "framework/pipeline/planner/model_profile_json.h"
#include "framework/pipeline/planner/planner.h"
#include "tests/pipeline/profiler/profiled_step.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

constexpr int64_t kRows = 3;

// Random rows, each call of which takes a while of the clock.
class SlowRows final : public Dataset {
 public:
  SlowRows(const Model& m, ManualClock& clock) : clock_(clock) {
    const Graph g = bind(m, 1);
    for (const ValueId v : g.inputs()) {
      rows_.push_back(testing::random_tensor(g.type(v), 7, g.value(v).name));
    }
  }
  int64_t size() const override { return kRows; }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override {
    clock_.advance(std::chrono::milliseconds(++calls_));
    for (size_t k = 0; k < inputs.size(); ++k) {
      auto* to = static_cast<std::byte*>(inputs[k].mutable_data());
      for (size_t i = 0; i < rows.size(); ++i, to += rows_[k].bytes()) {
        std::memcpy(to, rows_[k].data(), rows_[k].bytes());
      }
    }
    for (size_t i = 0; i < rows.size(); ++i) labels[i] = rows[i];
    most_row_ = std::max(most_row_, *std::ranges::max_element(rows));
  }
  int64_t most_row() const { return most_row_; }

 private:
  ManualClock& clock_;
  std::vector<Tensor> rows_;
  int calls_ = 0;
  int64_t most_row_ = 0;
};

ModelProfile measured(const Model& m, const ProfileOptions& options,
                      const std::string& freeze = "none") {
  ManualClock clock;
  SlowRows rows(m, clock);
  ModelProfile profile =
      measure_profile(m, trainable_parameters(m, freeze), testing::cpu(), rows, options, clock);
  EXPECT_EQ(rows.most_row(), std::min(kRows, options.batch) - 1);
  return profile;
}

Model tinynet() { return build_model("tinynet", {.classes = 3, .img_size = 16}); }

TEST(MeasureProfile, SaysOfEachNodeWhatItTakesAndHolds) {
  const Model m = tinynet();
  std::vector<int> told;
  const ModelProfile profile =
      measured(m, {.model = "tinynet.onnx", .batch = 5, .steps = 3, .on_step = [&](int done) {
                     told.push_back(done);
                     return true;
                   }});
  EXPECT_EQ(told, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(profile.model, "tinynet.onnx");
  EXPECT_THAT(profile.source, HasSubstr("measured: cpu, "));
  EXPECT_THAT(profile.source, HasSubstr(" threads, f32, 3 steps"));
  EXPECT_EQ(profile.batch, 5);
  const auto is_fixed = [](const NodeProfile& n) { return n.forward.fixed_s > 0; };
  EXPECT_TRUE(std::ranges::any_of(profile.nodes, is_fixed))
      << "two rows take less, but not for all";
  EXPECT_EQ(parse_model_profile(to_json(profile), "p.json"), profile);
  const StepGraph step = testing::step_of(m, 5);
  const StepNodes nodes = step_nodes(step);
  ASSERT_EQ(profile.nodes.size(), nodes.nodes.size() + 1);
  EXPECT_EQ(profile.nodes[0].description, "Input0");
  EXPECT_EQ(profile.nodes[0].activation_bytes, 5 * 3 * 16 * 16 * 4);
  double trained = 0;
  for (size_t n = 0; n < nodes.nodes.size(); ++n) {
    const NodeProfile& p = profile.nodes[n + 1];
    SCOPED_TRACE(p.id);
    EXPECT_EQ(p.id, nodes.names[n]);
    EXPECT_EQ(p.description, step.graph.nodes()[nodes.nodes[n]].op);
    EXPECT_GT(p.activation_bytes, 0);
    EXPECT_FALSE(p.inputs.empty());
    if (p.description != "Flatten") {
      EXPECT_GT(p.forward.median_s, 0);
    }
    if (p.parameter_bytes > 0) {
      EXPECT_GT(p.backward_s(), 0);
      // The kernel of a normalisation makes all its gradients at once.
      EXPECT_EQ(p.weight_gradient.median_s > 0, p.description != "BatchNormalization");
    }
    trained += p.parameter_bytes;
  }
  EXPECT_EQ(trained, 4.0 * static_cast<double>(parameter_count(m)));
  EXPECT_EQ(profile.nodes[1].input_gradient, NodeTime());  // nobody waits for the gradient of rows
  EXPECT_GT(profile.optimizer_s_per_byte, 0);
  EXPECT_EQ(profile.moment_bytes_per_byte, 2);  // Adam's
  EXPECT_GT(profile.peak_bytes, 4 * trained);
}

TEST(MeasureProfile, ItIsOverWhenTheCallerSaysSo) {
  const ModelProfile profile =
      measured(tinynet(), {.batch = 2, .steps = 9, .on_step = [](int done) { return done < 2; }});
  EXPECT_THAT(profile.source, HasSubstr(", f32, 2 steps"));
}

TEST(MeasureProfile, LoadingIsWhatFetchingRowsTakesButForTheFirstStep) {
  // Calls take 1 ms (the step without fused kernels), 2 ms (what is not counted), 3, 4 and 5 ms.
  const ModelProfile with = measured(tinynet(), {.batch = 2, .steps = 3, .load = true});
  EXPECT_DOUBLE_EQ(with.load_s(), 0.004);
  EXPECT_DOUBLE_EQ(with.nodes[0].input_gradient.mean_s, 0.004);
  EXPECT_EQ(with.copy_s(), 0);  // this device has the host's memory
  const ModelProfile without = measured(tinynet(), {.batch = 2, .steps = 1});
  EXPECT_EQ(without.load_s(), 0);
}

TEST(MeasureProfile, FrozenNodesOnlyRunForward) {
  const ModelProfile profile = measured(tinynet(), {.batch = 2, .steps = 1}, "layer2");
  double trained = 0, frozen = 0;
  bool behind = false;
  for (const NodeProfile& n : profile.nodes) {
    if (n.is_input()) continue;
    trained += n.parameter_bytes;
    frozen += n.frozen_bytes;
    if (!behind) {
      EXPECT_EQ(n.backward_s(), 0) << n.id;
      EXPECT_EQ(n.parameter_bytes, 0) << n.id;
    }
    behind |= n.id == "layer2";
  }
  EXPECT_TRUE(behind);
  EXPECT_GT(trained, 0);
  EXPECT_GT(frozen, 0);
}

TEST(MeasureProfile, IsReadBackAndPlannedFrom) {
  const ModelProfile profile =
      measured(testing::small_model("mobilenet_v2"), {.batch = 2, .steps = 1});
  EXPECT_EQ(parse_model_profile(to_json(profile), "p.json"), profile);
  const ModelProfile graph = parse_graph_text(graph_text(profile), "g.txt");
  EXPECT_EQ(graph.nodes.size(), profile.nodes.size());
  Topology topology;
  topology.levels.push_back({.units = 2, .all_reduce_bytes_per_s = 1e7, .p2p_bytes_per_s = 1e9});
  const PipelinePlan plan = plan_pipeline(profile, topology, {.preset = PlanPreset::kPipeline});
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].nodes.size() + plan.stages[1].nodes.size() + 1, profile.nodes.size());
  EXPECT_EQ(plan.stages[1].nodes.back(), profile.nodes.back().id);  // the loss
}

TEST(MeasureProfile, EveryOptimizerHasItsMoments) {
  using Kind = OptimizerConfig::Kind;
  for (const auto& [kind, moments] :
       {std::pair(Kind::kSgd, 1.0), std::pair(Kind::kAdamW, 2.0), std::pair(Kind::kRmsProp, 2.0)}) {
    const ModelProfile profile = measured(testing::flattening_model(),
                                          {.batch = 2, .steps = 1, .optimizer = {.kind = kind}});
    EXPECT_EQ(profile.moment_bytes_per_byte, moments);
  }
}

TEST(MeasureProfile, StepsAndRowsThatMakeNoSenseAreRefused) {
  const auto why = [](const ProfileOptions& options) {
    return error_of([&] { measured(tinynet(), options); });
  };
  EXPECT_THAT(why({.batch = 2, .steps = 0}), HasSubstr("0 steps; 1 to 100000 can be"));
  EXPECT_THAT(why({.batch = 2, .steps = limits::kProfiledSteps + 1}), HasSubstr("100001 steps"));
  EXPECT_THAT(why({.batch = 0, .steps = 1}), HasSubstr("a step of 0 rows"));
}

}  // namespace
}  // namespace ndtrain
