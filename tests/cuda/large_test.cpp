// Cases larger than an example, on the cuda plugin in every layout: rows longer than a block, sums
// cut in parts, whole tiles and parts of them, vectors and what is left behind them.
#include <gtest/gtest.h>

#include "tests/cuda/cases.h"

namespace ndtrain {
namespace {

struct Large {
  const char* name;
  const char* op;
  Example example;
};

Attrs axis(int64_t a) { return {{"axis", a}}; }

ExampleInput constant(DType t, Shape s) {
  ExampleInput e(t, std::move(s));
  e.known = true;
  return e;
}

void add_elementwise(std::vector<Large>& all) {
  const DType half = DType::kF16, brain = DType::kBF16, f32 = DType::kF32;
  const Shape images{3, 24, 9, 7};
  all.push_back({"ReluOfVectors", "Relu", {{{f32, {5, 1001}}}}});
  all.push_back({"GeluOfHalves", "Gelu", {{{half, {3, 1003}}}}});
  all.push_back({"AddOfHalves", "Add", {{{half, images}, {half, images}}}});
  all.push_back({"AddOfRow", "Add", {{{brain, {2, 197, 96}}, constant(brain, {96})}}});
  all.push_back({"MulByChannel", "Mul", {{{half, images}, {half, {3, 24, 1, 1}}}}});
  all.push_back({"AddOfChannel", "Add", {{{f32, images}, constant(f32, {24, 1, 1})}}});
  all.push_back({"DivBySeven", "Div", {{{f32, {7, 1, 33}}, {f32, {5, 1}}}}});
  all.push_back({"CastDown", "Cast", {{{f32, {4, 517}}}, {{"to", static_cast<int64_t>(half)}}}});
  all.push_back({"CastUp", "Cast", {{{brain, {4, 517}}}, {{"to", static_cast<int64_t>(f32)}}}});
  all.push_back({"SumOfMany", "Sum", {std::vector<ExampleInput>(9, {half, {6, 31}})}});
  all.push_back({"MaxOfMany", "Max", {std::vector<ExampleInput>(6, {f32, {2, 3, 31}})}});
  all.push_back({"MeanOfMany", "Mean", {{{40, 50}, {50}, {40, 1}, {1, 50}, {40, 50}, {40, 50}}}});
}

// A whole vector at a time, element by element, and both.
void add_chains(std::vector<Large>& all) {
  const DType half = DType::kF16, brain = DType::kBF16, f32 = DType::kF32;
  const Attrs silu{{"steps", "Sigmoid x0; Mul x0 y0"}};
  const Attrs shifted{{"steps", "Mul x0 x1; Add y0 x2; Clip y1 0 6; Mul y2 y1"}};
  all.push_back({"ChainOfVectors", "FusedElementwise", {{{f32, {5, 1001}}}, silu}});
  all.push_back({"ChainOfHalves", "FusedElementwise", {{{half, {3, 1003}}}, silu}});
  all.push_back({"ChainByChannel",
                 "FusedElementwise",
                 {{{brain, {3, 24, 9, 7}}, {brain, {24, 1, 1}}, {brain, {3, 24, 1, 1}}}, shifted}});
  all.push_back({"ChainByColumn",
                 "FusedElementwise",
                 {{{half, {2, 197, 96}}, constant(half, {96}), constant(half, {1})}, shifted}});
  all.push_back({"ChainByRow", "FusedElementwise", {{{7, 33}, {7, 1}, {7, 33}}, shifted}});
}

void add_movement(std::vector<Large>& all) {
  const auto perm = [](Ints p) { return Attrs{{"perm", std::move(p)}}; };
  const DType half = DType::kF16;
  all.push_back({"TransposeOfTiles", "Transpose", {{{70, 45}}, perm({1, 0})}});
  all.push_back({"TransposeOfHalves", "Transpose", {{{half, {2, 33, 64}}}, perm({0, 2, 1})}});
  all.push_back({"TransposeOfBytes", "Transpose", {{{DType::kU8, {3, 40, 36}}}, perm({2, 1, 0})}});
  all.push_back({"TransposeOfHeads", "Transpose", {{{2, 50, 3, 16}}, perm({0, 2, 1, 3})}});
  all.push_back({"ReorderOfImages", "Reorder", {{{half, {2, 40, 13, 11}}}}});
  all.push_back({"ConcatOfChannels",
                 "Concat",
                 {{{half, {2, 16, 9, 9}}, {half, {2, 8, 9, 9}}, {half, {2, 3, 9, 9}}}, axis(1)}});
  all.push_back({"SplitOfColumns", "Split", {{{5, 384}}, axis(1), 3}});
  all.push_back({"GatherOfRows",
                 "Gather",
                 {{{100, 65}, ExampleInput::given(DType::kI64, {3}, {99, -1, 7})}}});
}

// Lists that are sorted in one run and in several, the last of them short; most indices are one.
void add_gather_gradients(std::vector<Large>& all) {
  for (const int64_t n : {256, 257, 700, 2100}) {
    std::vector<double> wide, hot;
    for (int64_t k = 0; k < n; ++k) {
      wide.push_back(static_cast<double>(k * 7919 % 90 - 45));
      hot.push_back(k % 50 == 0 ? static_cast<double>(k % 3) : -1);
    }
    const auto grad = [&](DType t, Shape dy, int64_t at, Ints x, const std::vector<double>& to) {
      const DType index = t == DType::kF16 ? DType::kI32 : DType::kI64;
      Attrs attrs = axis(at);
      attrs.set("input_shape", std::move(x));
      const ExampleInput list = ExampleInput::given(index, {n}, to);
      all.push_back(
          {"GatherGrad", "GatherGrad", {{{t, std::move(dy)}, list}, attrs, 0, true, 1e-4}});
    };
    grad(DType::kF32, {n, 5}, 0, {45, 5}, wide);
    grad(DType::kF32, {2, n, 3}, 1, {2, 1000, 3}, wide);
    grad(DType::kF32, {3, n}, 1, {3, 4}, hot);
    grad(DType::kF16, {n, 2}, 0, {50, 2}, wide);
  }
}

void add_reductions(std::vector<Large>& all) {
  const DType half = DType::kF16;
  const auto axes = [](std::vector<int64_t> a) { return ExampleInput::ints(std::move(a)); };
  all.push_back({"SumOfLongRows", "ReduceSum", {{{2, 70000}, axes({1})}, {}, 0, true, 1e-5}});
  all.push_back({"SumOfRows", "ReduceSum", {{{9, 1500}, axes({1})}, {}, 0, true, 1e-5}});
  all.push_back({"SumOfLongColumns", "ReduceSum", {{{3000, 37}, axes({0})}, {}, 0, true, 1e-5}});
  all.push_back({"SumOfAll", "ReduceSum", {{{31, 37, 41}}, {}, 0, true, 1e-5}});
  all.push_back({"MeanOfPlanes", "ReduceMean", {{{half, {3, 33, 20, 19}}, axes({2, 3})}}});
  all.push_back({"SumOfChannels",
                 "ReduceSum",
                 {{{4, 40, 9, 9}, axes({0, 2, 3})}, {{"keepdims", 0}}, 0, true, 1e-5}});
  all.push_back(
      {"LogSumExpOfRows", "ReduceLogSumExp", {{{7, 2050}, axes({1})}, {}, 0, true, 1e-5}});
  all.push_back({"ArgMaxOfRows", "ArgMax", {{{6, 1000}}, axis(1)}});
  all.push_back({"GlobalAverageOfHalves", "GlobalAveragePool", {{{half, {2, 70, 14, 13}}}}});
}

void add_rows(std::vector<Large>& all) {
  const DType half = DType::kF16;
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    all.push_back({op, op, {{{3, 2500}}, axis(1), 0, true, 1e-5}});
    all.push_back({op, op, {{{half, {5, 1000}}}, axis(1)}});
    all.push_back({op, op, {{{3, 300, 5}}, axis(1), 0, true, 1e-5}});
  }
  all.push_back(
      {"SoftmaxGradOfRows", "SoftmaxGrad", {{{3, 2500}, {3, 2500}}, axis(1), 0, true, 1e-4}});
  const ExampleInput labels = ExampleInput::given(DType::kI64, {3}, {0, 1499, 700});
  const ExampleInput weights = ExampleInput::given(DType::kF32, {3}, {1, 0.5, 0.25});
  const Attrs smooth{{"smoothing", 0.1}};
  all.push_back(
      {"Loss", "SoftmaxCrossEntropy", {{{3, 1500}, labels, weights}, smooth, 0, true, 1e-5}});
  all.push_back({"LossGrad",
                 "SoftmaxCrossEntropyGrad",
                 {{ExampleInput(Shape{}), {3, 1500}, labels, weights}, smooth, 0, true, 1e-5}});
  all.push_back({"LayerNormOfLongRows",
                 "LayerNormalization",
                 {{{5, 3001}, {3001}, {3001}}, {}, 0, true, 1e-5}});
  all.push_back({"LayerNormOfHalves",
                 "LayerNormalization",
                 {{{half, {2, 50, 768}}, {half, {768}}, {half, {768}}}}});
  all.push_back({"LayerNormGradOfManyRows",
                 "LayerNormalizationGrad",
                 {{{200, 96}, {200, 96}, {96}}, {}, 0, true, 1e-4}});
  all.push_back({"LayerNormGradOfLongRows",
                 "LayerNormalizationGrad",
                 {{{5, 1500}, {5, 1500}, {1500}}, {}, 0, true, 1e-4}});
}

void add_images(std::vector<Large>& all) {
  const DType half = DType::kF16;
  const Attrs train{{"training_mode", 1}};
  for (const Shape& x : {Shape{3, 40, 12, 13}, Shape{2, 5, 60, 61}}) {
    const Shape c{x[1]};
    const ExampleInput var = ExampleInput::range(c, 0.2, 2);
    all.push_back({"BatchNorm", "BatchNormalization", {{x, c, c, c, var}, {}, 0, true, 1e-5}});
    all.push_back(
        {"BatchNormTraining", "BatchNormalization", {{x, c, c, c, var}, train, 3, true, 1e-5}});
    all.push_back({"BatchNormGrad", "BatchNormalizationGrad", {{x, x, c}, {}, 3, true, 1e-4}});
    all.push_back({"BatchNormHalves", "BatchNormalization", {{{half, x}, c, c, c, var}}});
    all.push_back({"InstanceNorm", "InstanceNormalization", {{x, c, c}, {}, 0, true, 1e-5}});
    all.push_back({"Lrn", "LRN", {{x}, {{"size", 5}}, 0, true, 1e-5}});
    const Attrs window{
        {"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}};
    const Shape y{x[0], x[1], (x[2] + 1) / 2, (x[3] + 1) / 2};
    Attrs average = window;
    average.set("input_shape", x.dims());
    all.push_back({"MaxPool", "MaxPool", {{ExampleInput::no_ties(x)}, window}});
    all.push_back({"MaxPoolHalves", "MaxPool", {{{half, x}}, window}});
    all.push_back({"AveragePoolHalves", "AveragePool", {{{half, x}}, window}});
    all.push_back({"MaxPoolGrad", "MaxPoolGrad", {{y, ExampleInput::no_ties(x)}, window}});
    all.push_back({"AveragePoolGrad", "AveragePoolGrad", {{y}, average}});
  }
}

std::vector<Large> large_cases() {
  std::vector<Large> all;
  add_chains(all);
  add_elementwise(all);
  add_movement(all);
  add_gather_gradients(all);
  add_reductions(all);
  add_rows(all);
  add_images(all);
  return all;
}

class CudaLarge : public ::testing::TestWithParam<size_t> {};

TEST_P(CudaLarge, MatchesTheReferenceInEveryLayout) {
  if (!cuda_plugin()) GTEST_SKIP() << why_not();
  const Large c = large_cases()[GetParam()];
  SCOPED_TRACE(c.name);
  const OpDef& def = find_op(c.op);
  const ExampleGraph e = build_example(def, c.example);
  ASSERT_FALSE(e.graph.nodes().empty());
  NodeRun run = node_of(e);
  run.in_place = true;
  const auto want = run_reference(def, run.attrs, run.in, run.out, e.values);
  for (const Ports& ports : cuda_ways(run)) {
    SCOPED_TRACE(is_plain(ports.out[0]) ? "row-major" : "channels-last");
    const std::vector<Bytes> got = cuda_plugin()->run(run, ports);
    if (HasFailure()) return;
    compare(def, c.name, run, c.example.tolerance, want, got);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, CudaLarge, ::testing::Range<size_t>(0, large_cases().size()),
                         [](const auto& c) {
                           return std::string(large_cases()[c.param].name) + '_' +
                                  std::to_string(c.param);
                         });

// Every image of a joined output begins where the other parts of the image end.
TEST(CudaConcat, WritesAroundGapsBehindImages) {
  if (!cuda_plugin()) GTEST_SKIP() << why_not();
  for (const char* op : {"Concat", "Relu"}) {
    std::vector<ExampleInput> parts(op == std::string("Relu") ? 1 : 2, {DType::kF16, {3, 8, 5, 5}});
    const Attrs attrs = op == std::string("Relu") ? Attrs{} : axis(1);
    const ExampleGraph e = build_example(find_op(op), {parts, attrs});
    const NodeRun run = node_of(e);
    Ports ports = plain_ports(run);
    ports.out[0].strides[0] += 40;
    const auto want = run_reference(find_op(op), run.attrs, run.in, run.out, e.values);
    compare(find_op(op), op, run, 0, want, cuda_plugin()->run(run, ports));
  }
}

TEST(CudaGatherGrad, AddsInTheOrderOfTheListHoweverLongItIs) {
  if (!cuda_plugin()) GTEST_SKIP() << why_not();
  for (const int64_t n : {200, 3000}) {
    std::vector<double> list;
    for (int64_t k = 0; k < n; ++k) list.push_back(static_cast<double>(k * k % 3));
    const Example example{{{n}, ExampleInput::given(DType::kI64, {n}, list)},
                          {{"input_shape", Ints{3}}}};
    const NodeRun run = node_of(build_example(find_op("GatherGrad"), example));
    float want[3] = {};
    const auto* dy = reinterpret_cast<const float*>(run.data[0].data());
    for (size_t k = 0; k < list.size(); ++k) want[static_cast<size_t>(list[k])] += dy[k];
    const std::vector<Bytes> got = cuda_plugin()->run(run);
    ASSERT_EQ(got.size(), 1u);
    for (size_t e = 0; e < 3; ++e) {
      EXPECT_EQ(reinterpret_cast<const float*>(got[0].data())[e], want[e]) << n << ", " << e;
    }
  }
}

// Numbers that the framework's generator gives are equal, not near.
TEST(CudaDropout, DrawsTheNumbersOfTheFramework) {
  if (!cuda_plugin()) GTEST_SKIP() << why_not();
  const ExampleInput seed = ExampleInput::given(DType::kI64, {2}, {12345, 678});
  const Example example{{seed}, {{"ratio", 0.3}, {"shape", Ints{7, 999}}, {"stream", 5}}};
  const OpDef& def = find_op("DropoutMask");
  const ExampleGraph e = build_example(def, example);
  const NodeRun run = node_of(e);
  const auto want = run_reference(def, run.attrs, run.in, run.out, e.values);
  const std::vector<Bytes> got = cuda_plugin()->run(run);
  ASSERT_EQ(got.size(), 1u);
  const auto* mask = reinterpret_cast<const float*>(got[0].data());
  for (size_t i = 0; i < want[0].size(); ++i) {
    ASSERT_EQ(mask[i], static_cast<float>(want[0][i])) << "element " << i;
  }
}

}  // namespace
}  // namespace ndtrain
