#include "framework/graph/arithmetic.h"

#include <gtest/gtest.h>

#include "framework/graph/attrs.h"

namespace ndtrain {
namespace {

const Attrs kBy2{{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}};
constexpr double kConv = 2.0 * (2 * 8 * 9 * 9) * (3 * 3 * 3);  // [2, 8, 9, 9] of [2, 3, 17, 17]

double of(std::string op, std::vector<Shape> in, Attrs attrs) {
  Graph g;
  std::vector<ValueId> inputs;
  for (Shape& s : in) {
    inputs.push_back(g.add_input("x" + std::to_string(inputs.size()), {DType::kF32, std::move(s)}));
  }
  g.mark_output(g.add1(std::move(op), std::move(inputs), std::move(attrs)));
  return arithmetic(g, g.nodes().back());
}

TEST(Arithmetic, CountsAConvolutionAndItsGradientsAlike) {
  EXPECT_EQ(of("Conv", {{2, 3, 17, 17}, {8, 3, 3, 3}}, kBy2), kConv);
  Attrs input = kBy2, weight = kBy2;
  input.set("input_shape", Ints{2, 3, 17, 17});
  weight.set("kernel_shape", Ints{3, 3});
  EXPECT_EQ(of("ConvGradInput", {{2, 8, 9, 9}, {8, 3, 3, 3}}, input), kConv);
  EXPECT_EQ(of("ConvGradWeight", {{2, 3, 17, 17}, {2, 8, 9, 9}}, weight), kConv);
}

TEST(Arithmetic, CountsAPooledConvolutionAsIfItWereNotPooled) {
  Attrs pooled = kBy2;
  pooled.set("steps", "Relu x0");
  pooled.set("pool_kernel_shape", Ints{3, 3});
  pooled.set("pool_strides", Ints{3, 3});
  pooled.set("pool_pads", Ints{0, 0, 0, 0});
  pooled.set("pool_ceil_mode", 0);
  EXPECT_EQ(of("FusedConv", {{2, 3, 17, 17}, {8, 3, 3, 3}}, pooled), kConv);
}

TEST(Arithmetic, IsNoneWhereNothingIsMultiplied) {
  EXPECT_EQ(of("Relu", {{2, 3}}, {}), 0);
  EXPECT_EQ(of("GlobalAveragePool", {{2, 3, 4, 4}}, {}), 0);
}

}  // namespace
}  // namespace ndtrain
