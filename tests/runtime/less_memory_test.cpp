// A device that is to save memory keeps weights in their plain size, names that in its numerics,
// and computes the same but for rounding.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>

#include "framework/runtime/executor.h"
#include "tests/graph/random_graph.h"
#include "tests/support/winograd.h"

namespace ndtrain {
namespace {

constexpr int64_t kChannels = 256;
constexpr double kWeightBytes = 4.0 * kChannels * kChannels * 3 * 3;

// One layer; of a side of 14, Winograd is faster for it.
Graph layer(int64_t side = 14) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {2, kChannels, side, side}});
  const ValueId w =
      g.add_param("w", testing::random_tensor({DType::kF32, {kChannels, kChannels, 3, 3}}, 1, "w"));
  g.mark_output(g.add1("Conv", {x, w}, {{"pads", Ints{1, 1, 1, 1}}}));
  return g;
}

double held_bytes() {
  const auto m = mallinfo2();
  return static_cast<double>(m.uordblks + m.hblkhd);
}

struct Produced {
  std::vector<double> y;
  // That plan and executor hold for weights: the layer's own are left out, and the room for values,
  // which grows with the threads.
  double bytes = 0;
};

Produced run(const Device& device, int64_t side = 14) {
  const Graph g = layer(side);
  const std::vector<Tensor> inputs = testing::random_inputs(g, 3);
  { const Plan warm(g, device); }  // what the library keeps for ever
  const double before = held_bytes();
  const Plan plan(g, device);
  Executor executor(plan);
  Produced r{.bytes = held_bytes() - before - static_cast<double>(plan.arena_bytes())};
  r.y = executor.run(inputs).at(0).to_doubles();
  return r;
}

class LessMemory : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::vector<std::string> all = Backend::available();
    if (std::ranges::find(all, GetParam()) == all.end()) GTEST_SKIP() << "it was not built";
  }
};

TEST_P(LessMemory, ComputesTheSameFromWeightsOfTheirPlainSize) {
  const Backend& backend = Backend::find(GetParam());
  const Device fast(backend, {.deterministic = true});
  const Device small(backend, {.deterministic = true, .less_memory = true});
  const Produced a = run(fast), b = run(small);
  double largest = 0, worst = 0;
  for (size_t i = 0; i < a.y.size(); ++i) {
    largest = std::max(largest, std::abs(a.y[i]));
    worst = std::max(worst, std::abs(a.y[i] - b.y[i]));
  }
  EXPECT_LT(worst, 1e-5 * largest);
  if (held_bytes() == 0) GTEST_SKIP() << "the sanitizer's malloc counts nothing";
  if (GetParam() == "onednn" && !support::has_winograd(fast.numerics())) {
    GTEST_SKIP() << "without Winograd this plugin has one algorithm only";
  }
  EXPECT_LT(b.bytes, 1.5 * kWeightBytes);
  EXPECT_GT(a.bytes - b.bytes, 0.7 * kWeightBytes) << "16 numbers for 9, or more";
}

TEST_P(LessMemory, IsWhatOnednnTakesForASingleTileToo) {
  if (GetParam() != "onednn") GTEST_SKIP() << "the cpu plugin has a rule of its own";
  const Device device(Backend::find("onednn"), {.deterministic = true});
  if (held_bytes() == 0) GTEST_SKIP() << "the sanitizer's malloc counts nothing";
  if (!support::has_winograd(device.numerics())) GTEST_SKIP() << "there is one algorithm only";
  EXPECT_LT(run(device, 4).bytes, 1.5 * kWeightBytes);
  EXPECT_GT(run(device, 5).bytes, 3.5 * kWeightBytes);
}

TEST_P(LessMemory, IsNamedInTheNumerics) {
  const Backend& backend = Backend::find(GetParam());
  const Device fast(backend, {.deterministic = true});
  const Device small(backend, {.deterministic = true, .less_memory = true});
  EXPECT_EQ(fast.numerics().find("less-memory"), std::string::npos);
  EXPECT_NE(small.numerics().find("less-memory"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Every, LessMemory, ::testing::Values("cpu", "onednn"),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace ndtrain
