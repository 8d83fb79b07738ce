// Graphs and engines of the plugin, without a node.
#include "backends/cuda/dnn/engine.h"

#include <gtest/gtest.h>

#include "backends/cuda/check.h"
#include "backends/cuda/layout.h"
#include "tests/cuda/fake_cudart.h"
#include "tests/cuda/fake_cudnn.h"

namespace ndtrain::cuda {
namespace {

ndt_tensor_type tensor(ndt_dtype t, std::vector<int64_t> dims) {
  ndt_tensor_type type{.dtype = t, .rank = static_cast<int32_t>(dims.size())};
  std::copy(dims.begin(), dims.end(), type.dims);
  return channels_last(type);
}

const ConvWindow kWindow{.strides = {1, 1}, .dilations = {1, 1}, .begin = {0, 0}, .end = {0, 0}};

class Engines : public ::testing::Test {
 protected:
  void SetUp() override {
    fake::reset();
    fake::reset_dnn();
    check(cudnnCreate(&handle_), "make a handle");
  }
  void TearDown() override { cudnnDestroy(handle_); }

  Graph conv(ndt_dtype t, int64_t outputs = 4) const {
    Graph g;
    const auto x = g.bound(tensor(t, {2, 3, 4, 4})), w = g.bound(tensor(t, {outputs, 3, 1, 1}));
    g.convolution(ConvPass::kForward, kWindow, NDT_F32, x, w, g.bound(tensor(t, {2, 4, 4, 4})));
    return g;
  }
  Graph finalized(Graph g) const {
    g.finalize(handle_);
    return g;
  }
  cudnnHandle_t handle_ = nullptr;
};

TEST_F(Engines, AreWrittenAsTextAndReadBack) {
  const EngineConfig plain{.engine = 12}, knobs{.engine = 3, .knobs = {{2, 5}, {14, -1}}};
  EXPECT_EQ(plain.text(), "12");
  EXPECT_EQ(knobs.text(), "3:2=5,14=-1");
  EXPECT_EQ(EngineConfig::parse("12"), plain);
  EXPECT_EQ(EngineConfig::parse("3:2=5,14=-1"), knobs);
  for (const char* text : {"", "x", "3:", "3:2", "3:2=", "3:2=5,", "3,2=5", "3 "}) {
    EXPECT_EQ(EngineConfig::parse(text), std::nullopt) << text;
  }
}

TEST_F(Engines, SuggestionsLeaveOutWhatMayNotBeUsed) {
  const std::vector<EngineConfig> half = suggestions(finalized(conv(NDT_F16)), {});
  ASSERT_EQ(half.size(), 7u);  // "broken", four knobs of "tensor cores", "plain", "last resort"
  EXPECT_EQ(half[1].text(), "3:13=0");
  const auto single = suggestions(finalized(conv(NDT_F32)), {.tensor_cores = false});
  ASSERT_EQ(single.size(), 3u);
  EXPECT_EQ(single[1].text(), "4");
}

TEST_F(Engines, PlansSayTheirWorkspace) {
  const Plan plan(handle_, finalized(conv(NDT_F32)), {.engine = 4});
  EXPECT_EQ(plan.workspace_bytes(), 2000u);
}

TEST_F(Engines, RefusalsCarryTheLibrarysReason) {
  try {
    Plan(handle_, finalized(conv(NDT_F32)), {.engine = 5});
    FAIL() << "the engine for fused graphs took a single convolution";
  } catch (const Unsupported& e) {
    EXPECT_NE(std::string(e.what()).find("the engine does not take the graph"), std::string::npos)
        << e.what();
  }
  EXPECT_THROW(Plan(handle_, finalized(conv(NDT_F32)), {.engine = 2}), Failure);
  EXPECT_THROW(Plan(handle_, finalized(conv(NDT_F32)), {.engine = 3, .knobs = {{13, 9}}}),
               Unsupported);
}

TEST_F(Engines, GraphsThatDoNotFitAreRefused) {
  EXPECT_THROW(conv(NDT_F32, 5), Failure) << "five outputs for four channels";
  Graph g = conv(NDT_F32);
  const auto nobodys = g.between(tensor(NDT_F32, {2, 4, 4, 4}));
  g.relu(NDT_F32, nobodys, g.bound(tensor(NDT_F32, {2, 4, 4, 4})), 6.0);
  EXPECT_THROW(g.finalize(handle_), Failure) << "nobody writes what the Relu reads";
}

}  // namespace
}  // namespace ndtrain::cuda
