// Squeeze-and-excitation on the onednn plugin: maps shrink to one pixel, whose blocks of channels
// lie as plain ones do, and scale the maps that they came from.
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/passes/passes.h"
#include "framework/runtime/executor.h"
#include "framework/runtime/interpreter.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::largest_difference;
using testing::random_inputs;
using testing::random_tensor;

class BlockBuilder {
 public:
  explicit BlockBuilder(Graph& g) : g_(g) {}

  ValueId conv(ValueId x, int64_t out, int64_t kernel) {
    const std::string name = "w" + std::to_string(count_++);
    const ValueId w = g_.add_param(
        name, random_tensor({DType::kF32, {out, g_.shape(x)[1], kernel, kernel}}, 1, name));
    const ValueId b = g_.add_param(name + "b", random_tensor({DType::kF32, {out}}, 1, name));
    return g_.add1("Conv", {x, w, b}, {{"pads", Ints(4, kernel / 2)}});
  }

 private:
  Graph& g_;
  int count_ = 0;
};

// `gate` is the op that makes factors of what is excited.
Graph network(int64_t batch, int64_t channels, int64_t squeezed, std::string gate) {
  Graph g;
  BlockBuilder b(g);
  const ValueId x = g.add_input("x", {DType::kF32, {batch, 3, 12, 11}});
  const ValueId y = g.add1("Relu", {b.conv(x, channels, 3)});
  const ValueId pixel = g.add1("GlobalAveragePool", {y});
  const ValueId few = g.add1("Relu", {b.conv(pixel, squeezed, 1)});
  const ValueId factor = g.add1(std::move(gate), {b.conv(few, channels, 1)});
  g.mark_output(b.conv(g.add1("Mul", {factor, y}), 24, 1));
  g.mark_output(pixel);
  return optimize_for_inference(g);
}

std::vector<std::vector<double>> doubles(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<double>> all;
  for (const Tensor& t : tensors) all.push_back(t.to_doubles());
  return all;
}

class SqueezeExcite : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<std::string> all = Backend::available();
    if (std::ranges::find(all, "onednn") == all.end()) GTEST_SKIP() << "onednn was not built";
  }
  static void equals_the_interpreter(const Graph& g) {
    const Device device(Backend::find("onednn"), {.deterministic = true});
    const std::vector<Tensor> inputs = random_inputs(g, 1);
    EXPECT_LE(largest_difference(doubles(Executor(Plan(g, device)).run(inputs)),
                                 doubles(interpret_outputs(g, inputs))),
              1e-5);
  }
};

TEST_F(SqueezeExcite, OfWholeBlocks) {
  equals_the_interpreter(network(2, 64, 32, "Sigmoid"));
  equals_the_interpreter(network(2, 64, 32, "HardSigmoid"));
}

TEST_F(SqueezeExcite, OfBlocksThatAreNotFull) {
  equals_the_interpreter(network(1, 48, 10, "Sigmoid"));
  equals_the_interpreter(network(3, 40, 16, "HardSigmoid"));
}

}  // namespace
}  // namespace ndtrain
