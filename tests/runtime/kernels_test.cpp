// Every example of every operator on every build of the cpu plugin, against the double reference.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/example_graph.h"
#include "tests/runtime/plugin_runner.h"

namespace ndtrain {
namespace {

double epsilon(DType t) {
  switch (t) {
    case DType::kF16:
      return 0x1p-10;
    case DType::kBF16:
      return 0x1p-7;
    case DType::kF64:
      return 0x1p-50;
    default:
      return 0x1p-23;
  }
}

// What rounding may do to a sum of `terms` products.
double tolerance(const OpDef& def, const NodeRun& run, DType out, double largest) {
  const double terms = def.terms ? static_cast<double>(def.terms(run.attrs, run.in)) : 1.0;
  return epsilon(out) * (8 + 2 * terms) * std::max(1.0, largest);
}

NodeRun node_of(const ExampleGraph& e) {
  const Node& n = e.graph.nodes()[0];
  NodeRun run{.op = n.op, .attrs = n.attrs};
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const ValueId v = n.inputs[i];
    const TensorType type = v == kNone ? TensorType{DType::kNone, {}} : e.graph.type(v);
    run.in.push_back(type);
    run.data.emplace_back(v == kNone ? 0 : type.bytes());
    if (v != kNone) store(e.values[i].data(), e.values[i].size(), type.dtype, run.data[i].data());
    run.constant.push_back(v != kNone && e.graph.value(v).kind == ValueKind::kConstant);
  }
  for (const ValueId v : n.outputs) run.out.push_back(e.graph.type(v));
  return run;
}

// `allowed` is relative to the largest value; 0: what rounding explains.
void compare(const OpDef& def, const std::string& what, const NodeRun& run, double allowed,
             const std::vector<std::vector<double>>& want, const std::vector<Bytes>& got) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < want.size(); ++k) {
    const DType t = run.out[k].dtype;
    std::vector<double> values(want[k].size());
    load(got[k].data(), values.size(), t, values.data());
    double largest = 0;
    for (const double x : want[k]) {
      if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
    }
    double bound = allowed > 0 ? allowed * std::max(1.0, largest) : tolerance(def, run, t, largest);
    if (!is_float(t)) bound = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const bool same =
          values[i] == want[k][i] || (std::isnan(values[i]) && std::isnan(want[k][i]));
      ASSERT_TRUE(same || std::fabs(values[i] - want[k][i]) <= bound)
          << what << "\noutput " << k << " element " << i << ": " << values[i] << ", reference "
          << want[k][i] << ", allowed " << bound;
    }
  }
}

class KernelTest : public testing::TestWithParam<ExampleCase> {};

TEST_P(KernelTest, MatchesTheReferenceWithAnyThreadsAndConstants) {
  const ExampleCase& c = GetParam();
  const ExampleGraph e = build_example(*c.def, c.example());
  if (e.graph.nodes().empty()) GTEST_SKIP() << "folded while the graph is built";
  NodeRun run = node_of(e);
  const auto want = run_reference(*c.def, run.attrs, run.in, run.out, e.values);
  ASSERT_FALSE(Plugin::cpu_builds().empty()) << "no cpu plugin in $NDTRAIN_BACKEND_PATH";
  for (const auto& plugin : Plugin::cpu_builds()) {
    SCOPED_TRACE(plugin->path());
    run.in_place = true;
    plugin->set_threads(1);
    const std::vector<Bytes> got = plugin->run(run);
    compare(*c.def, describe(*c.def, c.index), run, c.example().tolerance, want, got);
    if (testing::Test::HasFailure()) return;
    plugin->set_threads(3);
    const std::vector<Bytes> threaded = plugin->run(run);
    NodeRun frozen = node_of(e);
    for (size_t i = 1; i < frozen.in.size(); ++i) {
      frozen.constant[i] = frozen.in[i].dtype != DType::kNone;
    }
    const std::vector<Bytes> packed = plugin->run(frozen);
    for (size_t k = 0; k < got.size(); ++k) {
      EXPECT_TRUE(threaded.at(k) == got[k]) << describe(*c.def, c.index) << ": threads matter";
      EXPECT_TRUE(packed.at(k) == got[k]) << describe(*c.def, c.index) << ": constants matter";
    }
  }
}

bool has_kernel(const OpDef& def, const Example&) { return !def.reference_only; }

INSTANTIATE_TEST_SUITE_P(Every, KernelTest, testing::ValuesIn(example_cases(has_kernel)),
                         [](const auto& c) { return name_of(c.param); });

// A larger case than an example, in which image `i` of a batch must have the bits it has alone.
struct Batched {
  const char* name;
  const char* op;
  std::vector<Shape> inputs;  // of one image: input 0's first dim is the batch; the others constant
  Attrs attrs = {};
  std::vector<size_t> per_image = {};  // further inputs that have the batch as first dim
};

std::vector<Batched> batched_cases() {
  const Ints p1 = {1, 1, 1, 1}, s2 = {2, 2};
  const Attrs same{{"pads", p1}}, half{{"pads", p1}, {"strides", s2}};
  return {
      {"Pointwise", "Conv", {{1, 64, 7, 7}, {70, 64, 1, 1}, {70}}},
      {"PointwiseLarge", "Conv", {{1, 32, 30, 31}, {40, 32, 1, 1}, {40}}},
      {"PointwiseManyChannels", "Conv", {{1, 900, 5, 7}, {130, 900, 1, 1}, {130}}},
      {"PointwiseStrided", "Conv", {{1, 24, 14, 13}, {33, 24, 1, 1}}, {{"strides", s2}}},
      {"Same", "Conv", {{1, 48, 14, 14}, {64, 48, 3, 3}, {64}}, same},
      {"SameDeep", "Conv", {{1, 200, 7, 7}, {64, 200, 3, 3}, {64}}, same},
      {"SameTwoSteps", "Conv", {{1, 500, 6, 5}, {30, 500, 3, 3}, {30}}, same},
      {"SameUneven", "Conv", {{1, 17, 33, 19}, {29, 17, 3, 3}, {29}}, {{"pads", Ints{0, 1, 2, 1}}}},
      {"SameLarge", "Conv", {{1, 16, 28, 30}, {16, 16, 3, 3}}, same},
      {"Valid", "Conv", {{1, 16, 9, 28}, {16, 16, 3, 3}}},
      {"Strided", "Conv", {{1, 16, 15, 15}, {32, 16, 3, 3}, {32}}, half},
      {"Stem",
       "Conv",
       {{1, 3, 61, 61}, {64, 3, 7, 7}, {64}},
       {{"pads", Ints{3, 3, 3, 3}}, {"strides", s2}}},
      {"Dilated", "Conv", {{1, 8, 15, 15}, {24, 8, 3, 3}}, {{"dilations", Ints{2, 3}}}},
      {"Grouped", "Conv", {{1, 32, 14, 14}, {64, 8, 3, 3}}, {{"pads", p1}, {"group", 4}}},
      {"Depthwise", "Conv", {{1, 24, 9, 11}, {24, 1, 3, 3}, {24}}, {{"pads", p1}, {"group", 24}}},
      {"DepthwiseStrided",
       "Conv",
       {{1, 24, 12, 11}, {48, 1, 5, 5}, {48}},
       {{"pads", Ints{2, 2, 2, 2}}, {"strides", s2}, {"group", 24}}},
      {"Fused",
       "FusedConv",
       {{1, 20, 7, 7}, {36, 20, 3, 3}, {36}, {1, 36, 7, 7}},
       {{"pads", p1}, {"activation", "Relu"}},
       {3}},
      {"Gemm", "Gemm", {{1, 300}, {300, 70}, {70}}},
      {"GemmTransposed", "Gemm", {{1, 700}, {90, 700}, {90}}, {{"transB", 1}}},
      {"MatMul", "MatMul", {{1, 17, 96}, {96, 40}}},
      {"MatMulRows", "MatMul", {{1, 600}, {600, 33}}},
      {"Attention", "MatMul", {{1, 3, 50, 64}, {1, 3, 64, 50}}, {}, {1}},
      {"MaxPool", "MaxPool", {{1, 5, 15, 14}}, {{"kernel_shape", Ints{3, 3}}, {"strides", s2}}},
      {"MaxPoolPadded",
       "MaxPool",
       {{1, 5, 45, 39}},
       {{"kernel_shape", Ints{3, 3}}, {"pads", p1}, {"dilations", s2}}},
      {"AveragePool", "AveragePool", {{1, 5, 14, 9}}, {{"kernel_shape", s2}, {"strides", s2}}},
      {"GlobalAveragePool", "GlobalAveragePool", {{1, 37, 7, 7}}},
  };
}

// Larger than an example, to reach every block size; not one result per image.
std::vector<Batched> large_cases() {
  const Ints p1 = {1, 1, 1, 1}, s2 = {2, 2};
  const auto grad = [](Ints x, Attrs attrs) {
    attrs.set("input_shape", std::move(x));
    return attrs;
  };
  const Attrs same{{"pads", p1}}, half{{"pads", p1}, {"strides", s2}};
  Attrs kernel3 = same, half3 = half, kernel1 = {{"kernel_shape", Ints{1, 1}}};
  kernel3.set("kernel_shape", Ints{3, 3});
  half3.set("kernel_shape", Ints{3, 3});
  Attrs grouped = kernel3;
  grouped.set("group", int64_t{4});
  return {
      {"GradInputValid",
       "ConvGradInput",
       {{2, 70, 14, 15}, {70, 45, 3, 3}},
       grad({2, 45, 16, 17}, {})},
      {"GradInput",
       "ConvGradInput",
       {{2, 70, 14, 15}, {70, 45, 3, 3}},
       grad({2, 45, 14, 15}, same)},
      {"GradInputStrided",
       "ConvGradInput",
       {{2, 70, 15, 30}, {70, 145, 3, 3}},
       grad({2, 145, 30, 59}, half)},
      {"GradInputPointwiseStrided",
       "ConvGradInput",
       {{2, 70, 7, 7}, {70, 345, 1, 1}},
       grad({2, 345, 14, 14}, {{"strides", s2}})},
      {"GradWeight", "ConvGradWeight", {{2, 45, 14, 15}, {2, 70, 14, 15}}, kernel3},
      {"GradWeightLarge", "ConvGradWeight", {{2, 20, 40, 41}, {2, 30, 40, 41}}, kernel3},
      {"GradWeightStrided", "ConvGradWeight", {{2, 145, 9, 9}, {2, 16, 5, 5}}, half3},
      {"GradWeightPointwise", "ConvGradWeight", {{3, 345, 7, 7}, {3, 70, 7, 7}}, kernel1},
      {"GradWeightGrouped", "ConvGradWeight", {{2, 32, 9, 9}, {2, 64, 9, 9}}, grouped},
      {"GemmLarge", "Gemm", {{150, 800}, {800, 350}, {150, 350}}},
      {"GemmBothTransposed",
       "Gemm",
       {{800, 50}, {70, 800}, {50, 1}},
       {{"transA", 1}, {"transB", 1}}},
  };
}

TensorType with_batch(const Shape& s, int64_t batch) { return {DType::kF32, s.with(0, batch)}; }

// The case for images [first, first + batch) of a stream of images.
NodeRun batch_of(const Batched& c, int64_t first, int64_t batch) {
  Graph g;
  std::vector<ValueId> in;
  NodeRun run{.op = c.op};
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const bool streams =
        i == 0 || std::find(c.per_image.begin(), c.per_image.end(), i) != c.per_image.end();
    const TensorType type = with_batch(c.inputs[i], streams ? batch : c.inputs[i][0]);
    const int64_t stream = std::max<int64_t>(8, batch);
    ExampleInput spec(with_batch(c.inputs[i], streams ? stream : c.inputs[i][0]).shape);
    const std::vector<double> values = example_values(spec, c.name + std::to_string(i));
    run.data.emplace_back(type.bytes());
    const int64_t skip = streams ? first * c.inputs[i].count() : 0;
    store(values.data() + skip, static_cast<size_t>(type.shape.count()), DType::kF32,
          run.data.back().data());
    run.in.push_back(type);
    run.constant.push_back(!streams);
    in.push_back(g.add_input("x" + std::to_string(i), type));
  }
  const ValueId y = g.add(c.op, in, c.attrs).at(0);
  run.attrs = g.nodes()[0].attrs;
  run.out = {g.type(y)};
  return run;
}

class LargeTest : public testing::TestWithParam<Batched> {};

TEST_P(LargeTest, MatchesTheReferenceWithAnyThreads) {
  const Batched& c = GetParam();
  const NodeRun run = batch_of(c, 0, c.inputs[0][0]);
  std::vector<std::vector<double>> in(run.in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    in[i].resize(static_cast<size_t>(run.in[i].shape.count()));
    load(run.data[i].data(), in[i].size(), run.in[i].dtype, in[i].data());
  }
  const OpDef& def = find_op(c.op);
  const auto want = run_reference(def, run.attrs, run.in, run.out, in);
  ASSERT_FALSE(Plugin::cpu_builds().empty()) << "no cpu plugin in $NDTRAIN_BACKEND_PATH";
  for (const auto& plugin : Plugin::cpu_builds()) {
    SCOPED_TRACE(plugin->path());
    plugin->set_threads(1);
    const std::vector<Bytes> got = plugin->run(run);
    compare(def, c.name, run, 1e-5, want, got);
    plugin->set_threads(5);
    const std::vector<Bytes> threaded = plugin->run(run);
    ASSERT_EQ(threaded.size(), got.size());
    EXPECT_TRUE(threaded[0] == got[0]) << c.name << ": threads matter";
  }
}

INSTANTIATE_TEST_SUITE_P(OneImage, LargeTest, testing::ValuesIn(batched_cases()),
                         [](const auto& c) { return std::string(c.param.name); });
INSTANTIATE_TEST_SUITE_P(Whole, LargeTest, testing::ValuesIn(large_cases()),
                         [](const auto& c) { return std::string(c.param.name); });

class BatchTest : public testing::TestWithParam<Batched> {};

TEST_P(BatchTest, AnImageAloneHasTheBitsItHasInABatch) {
  const Batched& c = GetParam();
  ASSERT_FALSE(Plugin::cpu_builds().empty()) << "no cpu plugin in $NDTRAIN_BACKEND_PATH";
  for (const auto& plugin : Plugin::cpu_builds()) {
    SCOPED_TRACE(plugin->path());
    plugin->set_threads(3);
    const std::vector<Bytes> together = plugin->run(batch_of(c, 0, 7));
    ASSERT_EQ(together.size(), 1u);
    for (const int threads : {1, 2}) {
      plugin->set_threads(threads);
      for (int64_t i = 0; i < 7; ++i) {
        const std::vector<Bytes> alone = plugin->run(batch_of(c, i, 1));
        ASSERT_EQ(alone.size(), 1u);
        const size_t size = alone[0].size();
        EXPECT_TRUE(Bytes(size, together[0].data() + static_cast<size_t>(i) * size) == alone[0])
            << c.name << ", image " << i << ", " << threads << " threads";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, BatchTest, testing::ValuesIn(batched_cases()),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace ndtrain
