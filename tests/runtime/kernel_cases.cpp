#include "tests/runtime/kernel_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <utility>

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

TensorType of_images(const Shape& s, int64_t images, DType t) {
  return {t, s.with(0, images * s[0])};
}

// A case's inputs as drawn last: drawing costs more than the kernels, and a test asks again and
// again.
const std::vector<double>& drawn(const Batched& c, size_t input, const Shape& shape) {
  static std::string last;
  static std::map<std::pair<size_t, int64_t>, std::vector<double>> kept;
  if (std::exchange(last, c.name) != c.name) kept.clear();
  std::vector<double>& values = kept[{input, shape.count()}];
  if (values.empty()) values = example_values(ExampleInput(shape), c.name + std::to_string(input));
  return values;
}

}  // namespace

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

void freeze(NodeRun& node) {
  for (size_t i = 1; i < node.in.size(); ++i) {
    if (node.in[i].dtype == DType::kNone) continue;
    const bool of_images = node.in[i].shape.rank() == node.out[0].shape.rank();
    const bool value = node.op == "Concat" || (node.op == "Mul" && of_images) ||
                       node.in[i].shape == node.out[0].shape;
    node.constant[i] = node.in[i].shape.rank() < 2 || !value;
  }
}

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
       {{"pads", p1}, {"steps", "Relu x0"}},
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

NodeRun batch_of(const Batched& c, int64_t first, int64_t batch, DType t) {
  const uint64_t wide = find_op(c.op).facts.wide_inputs;
  Graph g;
  std::vector<ValueId> in;
  NodeRun run{.op = c.op};
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const bool streams =
        i == 0 || std::find(c.per_image.begin(), c.per_image.end(), i) != c.per_image.end();
    const DType dtype = t == DType::kBF16 && (wide >> i & 1) ? DType::kF32 : t;
    const TensorType type = of_images(c.inputs[i], streams ? batch : 1, dtype);
    const int64_t stream = std::max<int64_t>(24, batch);
    const Shape whole = of_images(c.inputs[i], streams ? stream : 1, dtype).shape;
    const std::vector<double>& values = drawn(c, i, whole);
    run.data.emplace_back(type.bytes());
    const int64_t skip = streams ? first * c.inputs[i].count() : 0;
    store(values.data() + skip, static_cast<size_t>(type.shape.count()), dtype,
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

std::vector<std::vector<double>> reference_of(const NodeRun& run) {
  std::vector<std::vector<double>> in(run.in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (run.in[i].dtype == DType::kNone) continue;
    in[i].resize(static_cast<size_t>(run.in[i].shape.count()));
    load(run.data[i].data(), in[i].size(), run.in[i].dtype, in[i].data());
  }
  return run_reference(find_op(run.op), run.attrs, run.in, run.out, in);
}

void compare(const OpDef& def, const std::string& what, const NodeRun& run, double allowed,
             const std::vector<std::vector<double>>& want, const std::vector<Bytes>& got,
             int units) {
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
    if (!is_float(t)) bound = units;
    for (size_t i = 0; i < values.size(); ++i) {
      const bool same =
          values[i] == want[k][i] || (std::isnan(values[i]) && std::isnan(want[k][i]));
      ASSERT_TRUE(same || std::fabs(values[i] - want[k][i]) <= bound)
          << what << "\noutput " << k << " element " << i << ": " << values[i] << ", reference "
          << want[k][i] << ", allowed " << bound;
    }
  }
}

std::vector<double> byte_stream(DType t, int64_t first, int64_t images, int64_t each,
                                unsigned seed) {
  std::vector<double> values;
  for (int64_t i = first; i < first + images; ++i) {
    std::mt19937 rng(seed + static_cast<unsigned>(i) * 977);
    for (int64_t k = 0; k < each; ++k) {
      values.push_back(static_cast<double>(rng() % 256) - (t == DType::kI8 ? 128 : 0));
    }
  }
  return values;
}

}  // namespace ndtrain
