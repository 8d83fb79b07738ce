// What the spatial, matrix, normalisation, loss and quantised ops refuse, and that the message
// names the offending value.
#include <gmock/gmock.h>

#include "framework/core/limits.h"
#include "framework/graph/op.h"

namespace ndtrain {
namespace {

struct Refusal {
  const char* name;
  const char* op;
  std::vector<TensorType> inputs;
  Attrs attrs;
  const char* says;
  int outputs = 0;
};

TensorType f32(Shape s) { return {DType::kF32, std::move(s)}; }
TensorType i64(Shape s) { return {DType::kI64, std::move(s)}; }

void add(const Refusal& r) {
  Graph g;
  std::vector<ValueId> in;
  for (const TensorType& t : r.inputs)
    in.push_back(g.add_input("x" + std::to_string(in.size()), t));
  g.add(r.op, in, r.attrs, r.outputs);
}

class Refused : public ::testing::TestWithParam<Refusal> {};

TEST_P(Refused, WithAMessageThatSaysWhy) {
  const Refusal& r = GetParam();
  try {
    add(r);
    FAIL() << r.op << " was accepted";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr(r.op));
    EXPECT_THAT(e.what(), ::testing::HasSubstr(r.says));
  }
}

const Ints kHuge{int64_t{1} << 40, 1};
const Ints kSquare{2, 2};
const TensorType kBytes{DType::kU8, {1, 1, 3}}, kByte{DType::kU8, {}};

const std::vector<Refusal> kConv = {
    {"KernelLarger", "Conv", {f32({1, 1, 2, 2}), f32({1, 1, 3, 3})}, {}, "covers 3 cells"},
    {"DilatedKernelLarger",
     "Conv",
     {f32({1, 1, 4, 4}), f32({1, 1, 3, 3})},
     {{"dilations", kSquare}},
     "covers 5 cells"},
    {"Channels", "Conv", {f32({1, 3, 4, 4}), f32({1, 2, 3, 3})}, {}, "[1,2,3,3]"},
    {"GroupZero", "Conv", {f32({1, 3, 4, 4}), f32({1, 3, 3, 3})}, {{"group", 0}}, "group 0"},
    {"Group", "Conv", {f32({1, 4, 4, 4}), f32({3, 2, 3, 3})}, {{"group", 2}}, "group 2"},
    {"ZeroStride",
     "Conv",
     {f32({1, 1, 4, 4}), f32({1, 1, 3, 3})},
     {{"strides", Ints{0, 1}}},
     "strides has the value 0"},
    {"NegativePad",
     "Conv",
     {f32({1, 1, 4, 4}), f32({1, 1, 3, 3})},
     {{"pads", Ints{0, 0, -1, 0}}},
     "pads has the value -1"},
    {"HugeDilation",
     "Conv",
     {f32({1, 1, 4, 4}), f32({1, 1, 3, 3})},
     {{"dilations", kHuge}},
     "dilations has the value 1099511627776"},
    {"ShortPads",
     "Conv",
     {f32({1, 1, 4, 4}), f32({1, 1, 3, 3})},
     {{"pads", kSquare}},
     "pads has 2 values, expected 4"},
    {"AutoPad", "Conv", {f32({1, 1, 4}), f32({1, 1, 3})}, {{"auto_pad", "SAME"}}, "'SAME'"},
    {"KernelShape",
     "Conv",
     {f32({1, 1, 4, 4}), f32({1, 1, 3, 3})},
     {{"kernel_shape", kSquare}},
     "kernel_shape [2,2]"},
    {"NoSpatialDims", "Conv", {f32({4, 4}), f32({4, 4})}, {}, "[4,4]"},
    {"EmptyPlane", "Conv", {f32({1, 1, 0}), f32({1, 1, 1})}, {}, "empty spatial dim"},
    {"Bias", "Conv", {f32({1, 1, 4, 4}), f32({2, 1, 3, 3}), f32({3})}, {}, "bias [3]"},
    {"Integers", "Conv", {i64({1, 1, 4, 4}), i64({1, 1, 3, 3})}, {}, "i64"},
    {"MixedDtypes", "Conv", {f32({1, 1, 4}), {DType::kF64, {1, 1, 3}}}, {}, "f64"},
    {"Activation",
     "FusedConv",
     {f32({1, 1, 4}), f32({1, 1, 3})},
     {{"steps", "Softmax x0"}},
     "'Softmax x0'"},
    {"Residual",
     "FusedConv",
     {f32({1, 1, 4}), f32({1, 1, 3}), f32({1}), f32({1, 1, 4})},
     {},
     "residual [1,1,4]"},
    {"QuantizedResidual",
     "FusedQLinearConv",
     {kBytes,
      f32({}),
      kByte,
      {DType::kI8, {1, 1, 3}},
      f32({}),
      {DType::kI8, {}},
      f32({}),
      kByte,
      {DType::kI32, {1}},
      {DType::kU8, {1, 1, 1}}},
     {},
     "no scale"},
    {"GradientShape",
     "ConvGradInput",
     {f32({1, 1, 3}), f32({1, 1, 3})},
     {{"input_shape", Ints{1, 1, 4}}},
     "gradient [1,1,3]"},
};

const std::vector<Refusal> kPool = {
    {"NoKernel", "MaxPool", {f32({1, 1, 4, 4})}, {}, "kernel_shape"},
    {"ZeroKernel", "MaxPool", {f32({1, 1, 4, 4})}, {{"kernel_shape", Ints{0, 2}}}, "the value 0"},
    {"Padding",
     "MaxPool",
     {f32({1, 1, 4, 4})},
     {{"kernel_shape", kSquare}, {"pads", Ints{0, 0, 2, 0}}},
     "padding 0 and 2"},
    {"PoolKernelLarger",
     "AveragePool",
     {f32({1, 1, 4, 4})},
     {{"kernel_shape", Ints{2, 5}}},
     "covers 5 cells"},
    {"StorageOrder",
     "MaxPool",
     {f32({1, 1, 4, 4})},
     {{"kernel_shape", kSquare}, {"storage_order", 2}},
     "storage_order is 2"},
    {"PoolRank", "GlobalAveragePool", {f32({3, 4})}, {}, "[3,4]"},
};

const std::vector<Refusal> kRest = {
    {"Statistics",
     "BatchNormalization",
     {f32({2, 3, 4}), f32({3}), f32({3}), f32({4}), f32({3})},
     {},
     "input 3 [4]"},
    {"RunningWithoutTraining",
     "BatchNormalization",
     {f32({2, 3}), f32({3}), f32({3}), f32({3}), f32({3})},
     {},
     "training_mode",
     3},
    {"EmptyBatch",
     "BatchNormalization",
     {f32({0, 3}), f32({3}), f32({3}), f32({3}), f32({3})},
     {{"training_mode", 1}},
     "empty batch"},
    {"Scale", "LayerNormalization", {f32({2, 3}), f32({4})}, {}, "[4]"},
    {"LayerAxis", "LayerNormalization", {f32({2, 3}), f32({3})}, {{"axis", 2}}, "axis"},
    {"LrnSize", "LRN", {f32({2, 3})}, {{"size", 0}}, "size is 0"},
    {"SoftmaxAxis", "Softmax", {f32({2, 3})}, {{"axis", 2}}, "axis"},
    {"Matrices", "Gemm", {f32({2, 3, 4}), f32({4, 5})}, {}, "[2,3,4]"},
    {"GemmInner", "Gemm", {f32({2, 3}), f32({3, 4})}, {{"transB", 1}}, "3 and 4"},
    {"GemmBias", "Gemm", {f32({2, 3}), f32({3, 4}), f32({2})}, {}, "[2]"},
    {"Inner", "MatMul", {f32({2, 3}), f32({4, 3})}, {}, "3 and 4"},
    {"MatMulBatch", "MatMul", {f32({2, 2, 3}), f32({3, 3, 3})}, {}, "batch"},
    {"MatMulScalar", "MatMul", {f32({}), f32({3, 3})}, {}, "scalars"},
    {"Labels", "SoftmaxCrossEntropy", {f32({2, 3}), i64({3}), f32({2})}, {}, "input 1 [3]"},
    {"LabelRank", "SoftmaxCrossEntropy", {f32({2, 3}), i64({2, 2, 1}), f32({2})}, {}, "[N, K]"},
    {"LabelWeights",
     "SoftmaxCrossEntropy",
     {f32({2, 3}), i64({2, 2}), f32({2})},
     {},
     "input 2 [2] is not a weight for each label"},
    {"LabelDtype", "SoftmaxCrossEntropy", {f32({2, 3}), f32({2}), f32({2})}, {}, "i64"},
    {"Smoothing",
     "SoftmaxCrossEntropy",
     {f32({2, 3}), i64({2}), f32({2})},
     {{"smoothing", 1.5}},
     "1.5"},
    {"TrainingModeUnknown",
     "Dropout",
     {f32({2}), f32({}), {DType::kBool, {}}},
     {},
     "known in advance"},
    {"Ratio", "DropoutMask", {i64({2})}, {{"ratio", 1.0}, {"shape", Ints{3}}}, "ratio is 1"},
    {"MaskShape", "DropoutMask", {i64({2})}, {{"ratio", 0.5}, {"shape", Ints{-3}}}, "-3"},
    {"Moment", "SgdStep", {f32({2}), f32({2}), f32({3}), f32({4})}, {}, "f32[3]"},
    {"Hyper", "AdamStep", {f32({2}), f32({2}), f32({2}), f32({2}), f32({6})}, {}, "f32[7]"},
    {"Next",
     "AdamStep",
     {f32({2}), f32({2}), f32({2}), f32({2}), f32({2}), f32({7})},
     {},
     "5 states, but 3 outputs"},
    {"Fifth",
     "RmsPropStep",
     {f32({2}), f32({2}), f32({2}), f32({2}), f32({3}), f32({5})},
     {},
     "f32[3]",
     4},
    {"QuantizeScale", "QuantizeLinear", {f32({2, 3}), f32({4})}, {}, "[4]"},
    {"QuantizeTo", "QuantizeLinear", {f32({2}), f32({})}, {{"output_dtype", 1}}, "f32"},
    {"Blocks",
     "DequantizeLinear",
     {{DType::kI8, {2, 5}}, f32({2, 2})},
     {{"block_size", 2}},
     "block of 2"},
    {"MasksOfOtherImages",
     "FusedAttention",
     {f32({6, 2, 3, 4}), f32({6, 2, 3, 4}), f32({6, 2, 3, 4}), f32({4, 1, 3, 3})},
     {},
     "its first dim does not divide 6 images"},
    {"MaskOfOtherHeads",
     "FusedAttention",
     {f32({6, 2, 3, 4}), f32({6, 2, 3, 4}), f32({6, 2, 3, 4}), f32({2, 3, 3, 3})},
     {},
     "[2,3,3,3]"},
    {"QuantizedWeight", "ConvInteger", {f32({1, 1, 4}), {DType::kI8, {1, 1, 3}}}, {}, "i8 or u8"},
};

std::string name(const ::testing::TestParamInfo<Refusal>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Convolution, Refused, ::testing::ValuesIn(kConv), name);
INSTANTIATE_TEST_SUITE_P(Pool, Refused, ::testing::ValuesIn(kPool), name);
INSTANTIATE_TEST_SUITE_P(OtherNnOps, Refused, ::testing::ValuesIn(kRest), name);

TEST(Dropout, TrainingModeIsRefusedInFavourOfToTraining) {
  Graph g;
  const ValueId x = g.add_input("x", f32({2})), ratio = g.add_input("ratio", f32({}));
  const std::vector<double> yes = {1};
  const ValueId training = g.add_constant("t", Tensor::from_doubles({DType::kBool, {}}, yes));
  try {
    g.add("Dropout", {x, ratio, training});
    FAIL() << "training_mode was accepted";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("use to_training"));
  }
}

TEST(Window, ExtentsEndAtTheirLimit) {
  const auto strided = [](int64_t stride) {
    add({"",
         "MaxPool",
         {f32({1, 1, 4})},
         {{"kernel_shape", Ints{2}}, {"strides", Ints{stride}}},
         ""});
  };
  EXPECT_NO_THROW(strided(limits::kWindow - 1));
  EXPECT_NO_THROW(strided(limits::kWindow));
  EXPECT_THROW(strided(limits::kWindow + 1), Error);
}

TEST(Ports, OfANodeEndAtTheirLimit) {
  const auto inputs = [](int n) {
    add({"",
         "Concat",
         std::vector<TensorType>(static_cast<size_t>(n), f32({1})),
         {{"axis", int64_t{0}}},
         ""});
  };
  const auto outputs = [](int n) {
    add({"", "Split", {f32({int64_t{n}})}, {{"num_outputs", int64_t{n}}}, "", n});
  };
  for (const int n : {limits::kPorts - 1, limits::kPorts}) {
    EXPECT_NO_THROW(inputs(n)) << n;
    EXPECT_NO_THROW(outputs(n)) << n;
  }
  EXPECT_THROW(inputs(limits::kPorts + 1), Error);
  EXPECT_THROW(outputs(limits::kPorts + 1), Error);
}

}  // namespace
}  // namespace ndtrain
