// What training asks of the onednn plugin: convolutions whose weights change, gradients, batch
// statistics. Larger than the operators' examples, so that blocks, parts and Winograd are met.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "tests/runtime/onednn_cases.h"

namespace ndtrain {
namespace {

// Of this processor, or of what ONEDNN_MAX_CPU_ISA makes of it.
bool has_products_of_bf16() {
  return !std::getenv("ONEDNN_MAX_CPU_ISA") && __builtin_cpu_supports("avx512bf16");
}

struct Training {
  std::string name, op;
  Example example;
};

constexpr int64_t kImages = 6;

// A convolution of [N, in, side, side] to [N, out, …], forward and back to both its inputs.
void add_convolution(std::vector<Training>& cases, const std::string& name, Shape x, Shape w,
                     int64_t stride) {
  const int64_t pad = w[2] / 2;
  const Attrs attrs{{"pads", Ints{pad, pad, pad, pad}}, {"strides", Ints{stride, stride}}};
  const int64_t side = (x[2] + 2 * pad - w[2]) / stride + 1;
  const Shape y{x[0], w[0], side, side};
  cases.push_back({name, "Conv", {.inputs = {x, w, Shape{w[0]}}, .attrs = attrs}});
  if (x[1] > 3) {  // nobody asks for the gradient of a photo
    Attrs of_input = attrs;
    of_input.set("input_shape", x.dims());
    cases.push_back({name, "ConvGradInput", {.inputs = {y, w}, .attrs = of_input}});
  }
  Attrs of_weight = attrs;
  of_weight.set("kernel_shape", Ints{w[2], w[3]});
  cases.push_back({name, "ConvGradWeight", {.inputs = {x, y}, .attrs = of_weight}});
}

std::vector<Training> training_cases() {
  std::vector<Training> cases;
  const auto add = [&](const char* name, Shape x, Shape w, int64_t stride = 1) {
    add_convolution(cases, name, std::move(x), std::move(w), stride);
  };
  add("Photo", {kImages, 3, 29, 29}, {40, 3, 7, 7}, 2);
  add("Winograd", {kImages, 64, 28, 28}, {64, 64, 3, 3});
  add("UnevenTiles", {kImages, 32, 13, 13}, {80, 32, 3, 3});
  add("FewPixels", {kImages, 48, 7, 7}, {48, 48, 3, 3});
  add("Strided", {kImages, 32, 15, 15}, {64, 32, 3, 3}, 2);
  add("Pointwise", {kImages, 64, 9, 9}, {300, 64, 1, 1});
  add("PointwiseStrided", {kImages, 64, 14, 14}, {256, 64, 1, 1}, 2);
  add("OneImage", {1, 32, 14, 14}, {272, 32, 3, 3});
  const Attrs uneven{{"pads", Ints{1, 0, 0, 1}}};
  Attrs of_input = uneven, of_weight = uneven;
  of_input.set("input_shape", Ints{kImages, 32, 10, 7});
  of_weight.set("kernel_shape", Ints{3, 3});
  const Shape from{kImages, 32, 10, 7}, to{kImages, 48, 9, 6};
  cases.push_back({"PaddedUnevenly",
                   "ConvGradInput",
                   {.inputs = {to, Shape{48, 32, 3, 3}}, .attrs = of_input}});
  cases.push_back({"PaddedUnevenly", "ConvGradWeight", {.inputs = {from, to}, .attrs = of_weight}});
  const Shape x{kImages, 40, 19, 17}, c{40};
  cases.push_back({"Statistics",
                   "BatchNormalization",
                   {.inputs = {x, c, c, c, ExampleInput::range(c, 0.2, 2, DType::kF32)},
                    .attrs = {{"training_mode", 1}},
                    .outputs = 3}});
  cases.push_back({"Statistics", "BatchNormalizationGrad", {.inputs = {x, x, c}}});
  cases.push_back({"Activation", "ReluGrad", {.inputs = {x, x}}});
  cases.push_back(
      {"Pool",
       "MaxPoolGrad",
       {.inputs = {Shape{kImages, 40, 10, 9}, ExampleInput::no_ties(x)},
        .attrs = {
            {"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}}});
  return cases;
}

// With data of bf16 beside statistics, scales and biases of f32.
Training in_bf16(Training c) {
  c.name += "InBf16";
  const uint64_t wide = c.op == "BatchNormalizationGrad" ? 0b100 : find_op(c.op).facts.wide_inputs;
  for (size_t i = 0; i < c.example.inputs.size(); ++i) {
    if (!(wide >> i & 1)) c.example.inputs[i].type.dtype = DType::kBF16;
  }
  return c;
}

std::vector<Training> cases_in_bf16() {
  std::vector<Training> cases;
  std::vector<Training> wide = training_cases();
  // The library has it for whole blocks of channels alone.
  std::erase_if(wide,
                [](const Training& c) { return c.op == "ConvGradWeight" && c.name == "Photo"; });
  add_convolution(wide, "PhotoToBlocks", {kImages, 3, 32, 32}, {64, 3, 7, 7}, 2);
  for (const Training& c : wide) cases.push_back(in_bf16(c));
  const auto product = [&](const char* name, const char* op, Shape a, Shape b, Attrs attrs) {
    cases.push_back(in_bf16({name, op, {.inputs = {a, b}, .attrs = std::move(attrs)}}));
  };
  product("OfTokens", "MatMul", {3, 50, 96}, {96, 200}, {});
  product("OfHeads", "MatMul", {3, 4, 50, 32}, {3, 4, 32, 50}, {});
  product("OfRows", "Gemm", {37, 96}, {200, 96}, {{"transB", 1}});
  product("OfWeights", "Gemm", {150, 200}, {150, 96}, {{"transA", 1}});
  return cases;
}

class OnednnTrainingTest : public ::testing::TestWithParam<Training> {};

TEST_P(OnednnTrainingTest, MatchesTheReferenceWithTheSameBitsForAnyThreads) {
  if (!onednn()) return;
  const Training& c = GetParam();
  if (c.example.inputs[0].type.dtype == DType::kBF16 && !has_products_of_bf16()) {
    GTEST_SKIP() << "this processor has no products of bf16";
  }
  const OpDef& def = find_op(c.op);
  const ExampleGraph e = build_example(def, c.example);
  const NodeRun run = node_of(e);
  const auto want = run_reference(def, run.attrs, run.in, run.out, e.values);
  onednn()->set_threads(1);
  const auto ports = onednn()->prefer(run, ports_from(run, Start::kBlocked));
  ASSERT_TRUE(ports.has_value());
  const std::vector<Bytes> alone = onednn()->run(run, *ports);
  // One rounding to 8 bits, or the order of sums in f32.
  compare(def, c.name, run, run.in[0].dtype == DType::kBF16 ? 0x1p-8 : 2e-5, want, alone);
  for (const int threads : {2, 3, 5}) {
    onednn()->set_threads(threads);
    const std::vector<Bytes> together = onednn()->run(run, *ports);
    ASSERT_EQ(together.size(), alone.size());
    for (size_t k = 0; k < alone.size(); ++k) {
      EXPECT_TRUE(together[k] == alone[k]) << "output " << k << ", " << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, OnednnTrainingTest, ::testing::ValuesIn(training_cases()),
                         [](const auto& c) { return c.param.op + c.param.name; });
INSTANTIATE_TEST_SUITE_P(EveryInBf16, OnednnTrainingTest, ::testing::ValuesIn(cases_in_bf16()),
                         [](const auto& c) { return c.param.op + c.param.name; });

// So that a plan goes another way instead of one that is slower than f32.
TEST(OnednnTraining, RefusesGradientsInBf16WhereTheProcessorHasNoProductsOfIt) {
  if (!onednn() || has_products_of_bf16()) return;
  for (const Training& c : cases_in_bf16()) {
    if (c.op == "ReluGrad" || c.name.starts_with("OfHeads")) continue;
    const NodeRun run = node_of(build_example(find_op(c.op), c.example));
    EXPECT_FALSE(onednn()->prefer(run, ports_from(run, Start::kBlocked))) << c.op << c.name;
  }
}

}  // namespace
}  // namespace ndtrain
