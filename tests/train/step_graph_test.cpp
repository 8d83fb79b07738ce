#include "framework/train/step_graph.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "framework/runtime/plan.h"
#include "framework/train/head.h"
#include "models/zoo.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

// What the layout of the parameters says of a step has to be what a plan of the step does.
TEST(StepGraph, GradientsAreReadyInTheOrderThatIsForetold) {
  for (const char* name : {"tinynet", "resnet18", "squeezenet1_1"}) {
    const Model m = build_model(name, {.classes = 3, .img_size = 64});
    const std::vector<std::string> trainable = trainable_parameters(m, "none");
    const StepGraph one = make_step_graph(bind(m, 1), trainable, 0);
    const StepGraph s = make_step_graph(bind(m, 2), trainable, 0);
    const std::vector<ValueId> foretold = by_readiness(one);
    ASSERT_EQ(foretold.size(), s.trainable.size()) << name;
    for (const Device* device : testing::host_devices()) {
      std::vector<ValueId> bound = s.trainable;
      for (const auto& state : s.states) bound.push_back(state.param);
      const Plan plan(s.graph, *device, {.bound_params = bound});
      std::vector<std::string> ready, want;
      for (const int k : plan.ready_order()) {
        const auto gradient = static_cast<size_t>(k) - 2;  // behind loss and logits
        if (k >= 2 && gradient < s.trainable.size()) {
          ready.push_back(s.graph.value(s.trainable[gradient]).name);
        }
      }
      for (ValueId v : foretold) want.push_back(one.graph.value(v).name);
      EXPECT_EQ(ready, want) << name << " on " << device->backend().name();
    }
  }
}

}  // namespace
}  // namespace ndtrain
