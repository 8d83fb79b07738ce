// What composed ops become, in plans: the numbers of the reference, and for each image the bits
// that it has alone, as features must.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/graph/op.h"
#include "framework/runtime/executor.h"
#include "framework/runtime/interpreter.h"
#include "tests/ops/example_graph.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

struct ComposedCase {
  const char* name;
  const char* op;
  Shape image;                     // of x, without the batch
  std::vector<ExampleInput> rest;  // further inputs, constant
  Attrs attrs = {};
  Shape per_image = {};  // of input 2 instead, which every image has its own of
};

Tensor values_of(const ExampleInput& in, const std::string& purpose) {
  return Tensor::from_doubles(in.type, example_values(in, purpose));
}

Shape batched(int64_t batch, const Shape& image) {
  Ints dims = image.dims();
  dims.insert(dims.begin(), batch);
  return Shape(std::move(dims));
}

Graph graph_of(const ComposedCase& c, int64_t batch) {
  Graph g;
  std::vector<ValueId> in = {g.add_input("x", {DType::kF32, batched(batch, c.image)})};
  for (size_t i = 0; i < c.rest.size(); ++i) {
    const bool absent = c.rest[i].type.dtype == DType::kNone;
    const std::string name = "in" + std::to_string(i);
    in.push_back(absent ? kNone : g.add_constant(name, values_of(c.rest[i], name)));
  }
  if (c.per_image.rank() > 0) {
    in.push_back(g.add_input("own", {DType::kF32, batched(batch, c.per_image)}));
  }
  g.add(c.op, in, c.attrs);
  const Node node = g.nodes().back();
  for (const ValueId y : composed(g, node)) g.mark_output(y);
  return remove_dead_nodes(g);
}

class ComposedOp : public ::testing::TestWithParam<ComposedCase> {};

TEST_P(ComposedOp, GivesAnImageTheBitsItHasAlone) {
  const ComposedCase& c = GetParam();
  constexpr int64_t kImages = 5;
  std::vector<Tensor> all = {values_of(batched(kImages, c.image), "x")};
  if (c.per_image.rank() > 0) all.push_back(values_of(batched(kImages, c.per_image), "own"));
  const Graph together = graph_of(c, kImages), single = graph_of(c, 1);
  const std::vector<double> want = interpret_outputs(together, all).at(0).to_doubles();
  for (const Device* device : testing::host_devices()) {
    SCOPED_TRACE(device->backend().name());
    const Plan plan(together, *device), one(single, *device);
    const Tensor y = Executor(plan).run(all).at(0);
    EXPECT_THAT(y.to_doubles(), ::testing::Pointwise(::testing::DoubleNear(1e-4), want));
    Executor alone(one);
    for (int64_t i = 0; i < kImages; ++i) {
      std::vector<Tensor> own;
      for (const Tensor& t : all) own.push_back(t.rows(i, 1));
      EXPECT_TRUE(alone.run(own).at(0).same_bytes(y.rows(i, 1))) << "image " << i;
    }
  }
}

std::vector<ComposedCase> composed_cases() {
  const ExampleInput scales = ExampleInput::given(DType::kF32, {4}, {1, 1, 2, 1.5});
  const ExampleInput none = ExampleInput::absent();
  const Attrs twice{{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}};
  return {
      {"Nearest", "Resize", {12, 9, 10}, {none, scales}},
      {"Linear", "Resize", {12, 9, 10}, {none, scales}, {{"mode", "linear"}}},
      {"Cubic", "Resize", {12, 9, 10}, {none, scales}, {{"mode", "cubic"}}},
      {"Doubling", "ConvTranspose", {32, 7, 9}, {ExampleInput{32, 16, 4, 4}, {16}}, twice},
      {"Grouped",
       "ConvTranspose",
       {32, 7, 7},
       {ExampleInput{32, 4, 3, 3}},
       {{"group", int64_t{8}}}},
      {"Patches",
       "ConvTranspose",
       {16, 8, 8},
       {ExampleInput{16, 8, 2, 2}},
       {{"strides", Ints{2, 2}}}},
      {"Deformed", "DeformConv", {8, 7, 6}, {ExampleInput{4, 8, 3, 3}}, {}, {18, 5, 4}},
  };
}

INSTANTIATE_TEST_SUITE_P(Every, ComposedOp, ::testing::ValuesIn(composed_cases()),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace ndtrain
