// Functions that onednn has no kernel for, between convolutions: computed where these leave their
// numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/runtime/executor.h"
#include "framework/runtime/interpreter.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

Tensor numbers(const Shape& shape) {
  std::vector<double> values(static_cast<size_t>(shape.count()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.25 * static_cast<double>(i * 37 % 23) - 2.5;
  }
  return Tensor::from_doubles({DType::kF32, shape}, values);
}

// Conv, Mish and its gradient of two inputs, Conv.
Graph between_convolutions(int64_t channels) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {2, channels, 9, 7}});
  const ValueId w = g.add_param("w", numbers({channels, channels, 1, 1}));
  const ValueId a = g.add1("Conv", {x, w}), b = g.add1("Mish", {a});
  const ValueId c = g.add1("MishGrad", {b, a});
  g.set_outputs({g.add1("Conv", {c, w})});
  return g;
}

struct Ran {
  std::vector<std::string> ops;
  std::vector<double> y;
};

Ran run_on(const Device& device, const Graph& g) {
  const Plan plan(g, device);
  Executor executor(plan);
  executor.set_profiling(true);
  Ran run;
  const std::vector<Tensor> in = {numbers(g.shape(g.inputs()[0]))};
  run.y = executor.run(in)[0].to_doubles();
  for (const auto& t : executor.profile()) run.ops.push_back(t.op);
  return run;
}

void expect_as_interpreted(const Graph& g, const std::vector<double>& y) {
  const std::vector<Tensor> in = {numbers(g.shape(g.inputs()[0]))};
  const std::vector<double> values = interpret_outputs(g, in)[0].to_doubles();
  double largest = 0;
  for (const double v : values) largest = std::max(largest, std::abs(v));
  for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], values[i], 1e-5 * largest) << i;
}

TEST(FlatMap, StaysInTheBlocksOfItsConvolutions) {
  const Graph g = between_convolutions(32);
  for (const Device* device : testing::host_devices()) {
    const Ran run = run_on(*device, g);
    expect_as_interpreted(g, run.y);
    const int ends = device->backend().name() == "onednn" ? 2 : 0;  // into blocks and back
    EXPECT_EQ(std::ranges::count(run.ops, "Reorder"), ends) << device->backend().name();
  }
}

// What the function makes of the zeros there is no zero.
TEST(FlatMap, IsNotTakenOverPaddingLanes) {
  const Graph g = between_convolutions(20);
  for (const Device* device : testing::host_devices()) {
    expect_as_interpreted(g, run_on(*device, g).y);
  }
}

}  // namespace
}  // namespace ndtrain
