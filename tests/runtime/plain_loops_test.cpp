// What a plan says of kernels in plain loops, and that 16-bit floats take none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/log.h"
#include "framework/runtime/executor.h"
#include "tests/runtime/cpu_device.h"
#include "tests/runtime/kernel_cases.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A convolution, its gradients and a function, in the type.
Graph convolutions(DType t) {
  Graph g;
  const ValueId x = g.add_input("x", {t, {2, 16, 9, 9}}), w = g.add_input("w", {t, {8, 16, 3, 3}});
  const ValueId y = g.add1("Conv", {x, w});
  g.mark_output(g.add1("Tanh", {y}));
  g.mark_output(g.add1("ConvGradInput", {y, w}, {{"input_shape", Ints{2, 16, 9, 9}}}));
  g.mark_output(g.add1("ConvGradWeight", {x, y}, {{"kernel_shape", Ints{3, 3}}}));
  return g;
}

std::string said_of(DType t) {
  const support::TemporaryDirectory directory;
  log::to_file(directory.at("log"));
  const Plan first(convolutions(t), testing::cpu()), second(convolutions(t), testing::cpu());
  log::to_file("");
  return real_fs().read(directory.at("log")).or_throw();
}

TEST(PlainLoops, AreSaidOnceForEachOpAndDtype) {
  EXPECT_EQ(said_of(DType::kF32), "");
  EXPECT_EQ(said_of(DType::kBF16), "");
  EXPECT_THAT(said_of(DType::kF16), AllOf(HasSubstr("Tanh of f16"), Not(HasSubstr("Conv"))));
  const std::string said = said_of(DType::kF64);
  for (const char* op :
       {"Conv of f64", "ConvGradInput of f64", "ConvGradWeight of f64", "Tanh of f64"}) {
    const std::string line = "computes " + std::string(op) + " in plain loops";
    ASSERT_THAT(said, HasSubstr(line));
    EXPECT_EQ(said.find(line), said.rfind(line)) << said;
  }
}

// The bits of the f32 kernel on the same numbers, rounded: what no other order of sums gives in
// ten thousand numbers.
TEST(PlainLoops, AreNotTakenByGradientsOfConvolutionsInSixteenBits) {
  const Shape x{2, 64, 14, 14}, w{64, 64, 3, 3}, y{2, 64, 14, 14};
  const Attrs same{{"pads", Ints{1, 1, 1, 1}}};
  Attrs to_input = same, to_weight = same;
  to_input.set("input_shape", Ints(x.dims()));
  to_weight.set("kernel_shape", Ints{3, 3});
  for (const auto& [op, a, b, attrs] : {std::tuple("ConvGradInput", y, w, to_input),
                                        std::tuple("ConvGradWeight", x, y, to_weight)}) {
    const auto result = [&, op = op, &a = a, &b = b, &attrs = attrs](DType t) {
      Graph g;
      const ValueId in[] = {g.add_input("a", {t, a}), g.add_input("b", {t, b})};
      g.mark_output(g.add1(op, {in[0], in[1]}, attrs));
      std::vector<Tensor> inputs;
      for (const Shape& s : {a, b}) {
        const std::vector<double> values = example_values(ExampleInput(s), op);
        const Tensor narrow = Tensor::from_doubles({DType::kBF16, s}, values);
        inputs.push_back(Tensor::from_doubles({t, s}, narrow.to_doubles()));
      }
      const Plan plan(g, testing::cpu());
      return Executor(plan).run(inputs).at(0);
    };
    const Tensor wide = result(DType::kF32), narrow = result(DType::kBF16);
    const Tensor rounded = Tensor::from_doubles({DType::kBF16, wide.shape()}, wide.to_doubles());
    EXPECT_TRUE(narrow.same_bytes(rounded)) << op;
  }
}

}  // namespace
}  // namespace ndtrain
