// Numbers worked out by hand or by PyTorch in double, for what finite differences cannot show: what
// the ops mean.
#include <gmock/gmock.h>

#include <cmath>

#include "framework/core/rng.h"
#include "framework/runtime/interpreter.h"

namespace ndtrain {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;
using Doubles = std::vector<double>;

struct Inputs {
  TensorType type;
  Doubles values;

  Inputs(Shape s, Doubles v) : type{DType::kF32, std::move(s)}, values(std::move(v)) {}
  Inputs(DType t, Shape s, Doubles v) : type{t, std::move(s)}, values(std::move(v)) {}
};

// The outputs of one node.
std::vector<Doubles> run(const std::string& op, const std::vector<Inputs>& inputs, Attrs attrs = {},
                         int outputs = 0) {
  Graph g;
  DoubleValues given;
  std::vector<ValueId> ids;
  for (const Inputs& in : inputs) {
    ids.push_back(g.add_input("x" + std::to_string(ids.size()), in.type));
    given[ids.back()] = in.values;
  }
  const std::vector<ValueId> ys = g.add(op, ids, std::move(attrs), outputs);
  const DoubleValues all = interpret(g, given);
  std::vector<Doubles> result;
  for (ValueId y : ys) result.push_back(all.at(y));
  return result;
}

Doubles run1(const std::string& op, const std::vector<Inputs>& inputs, Attrs attrs = {}) {
  return run(op, inputs, std::move(attrs)).at(0);
}

Doubles count_up(int n) {
  Doubles v;
  for (int i = 1; i <= n; ++i) v.push_back(i);
  return v;
}

auto near_values(const Doubles& expected, double tolerance = 1e-12) {
  return Pointwise(DoubleNear(tolerance), expected);
}

TEST(Conv, PadsAndDilationPlaceTheTaps) {
  // Taps 2 apart, 1 cell of padding before and 2 after: y[o] = x[o-1] + 10 x[o+1].
  EXPECT_THAT(run1("Conv", {{{1, 1, 4}, {1, 2, 3, 4}}, {{1, 1, 2}, {1, 10}}},
                   {{"pads", Ints{1, 2}}, {"dilations", Ints{2}}}),
              ElementsAre(20, 31, 42, 3, 4));
}

TEST(Conv, GroupsSeeTheirOwnChannelsOnly) {
  EXPECT_THAT(
      run1("Conv", {{{1, 2, 1}, {3, 5}}, {{4, 1, 1}, {1, 2, 10, 20}}, {{4}, {0, 0, 0, 0.5}}},
           {{"group", 2}}),
      ElementsAre(3, 6, 50, 100.5));
}

Ints resolved_pads(const char* auto_pad, int64_t in, int64_t kernel, int64_t stride) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {1, 1, in}});
  const ValueId w = g.add_input("w", {DType::kF32, {1, 1, kernel}});
  g.add("Conv", {x, w}, {{"auto_pad", std::string(auto_pad)}, {"strides", Ints{stride}}});
  EXPECT_EQ(g.nodes()[0].attrs.s("auto_pad"), "NOTSET");
  return g.nodes()[0].attrs.ints("pads");
}

TEST(Conv, AutoPadSplitsThePaddingAndPutsTheOddCellAtTheNamedEnd) {
  EXPECT_THAT(resolved_pads("SAME_UPPER", 7, 4, 1), ElementsAre(1, 2));
  EXPECT_THAT(resolved_pads("SAME_LOWER", 7, 4, 1), ElementsAre(2, 1));
  EXPECT_THAT(resolved_pads("SAME_UPPER", 8, 3, 2), ElementsAre(0, 1));
  EXPECT_THAT(resolved_pads("SAME_UPPER", 5, 1, 3), ElementsAre(0, 0));
  EXPECT_THAT(resolved_pads("VALID", 7, 3, 2), ElementsAre(0, 0));
}

TEST(FusedConv, AddsTheResidualBeforeTheActivation) {
  const std::vector<Inputs> in = {
      {{1, 1, 3}, {1, 2, 3}}, {{1, 1, 1}, {1}}, {{1}, {1}}, {{1, 1, 3}, {-9, 0, 9}}};
  EXPECT_THAT(run1("FusedConv", in), ElementsAre(-7, 3, 13));
  EXPECT_THAT(run1("FusedConv", in, {{"steps", "Relu x0"}}), ElementsAre(0, 3, 13));
  EXPECT_THAT(run1("FusedConv", in, {{"steps", "Clip x0 -1 6"}}), ElementsAre(-1, 3, 6));
}

TEST(AveragePool, CeilModeDividesByTheCellsThatAreThere) {
  const Inputs x{{1, 1, 4, 4}, count_up(16)};
  EXPECT_THAT(run1("AveragePool", {x},
                   {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", 1}}),
              near_values({6, 7.5, 12, 13.5}));
}

TEST(AveragePool, PaddingCountsWhenAskedForButCellsBeyondItNever) {
  const Inputs x{{1, 1, 6}, count_up(6)};
  Attrs attrs{
      {"kernel_shape", Ints{3}}, {"strides", Ints{2}}, {"pads", Ints{1, 1}}, {"ceil_mode", 1}};
  EXPECT_THAT(run1("AveragePool", {x}, attrs), near_values({1.5, 3, 5, 6}));
  attrs.set("count_include_pad", int64_t{1});
  EXPECT_THAT(run1("AveragePool", {x}, attrs), near_values({1, 3, 5, 3}));
}

TEST(AveragePool, AWindowThatWouldStartInThePaddingAfterIsLeftOut) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {1, 1, 3}});
  const Attrs attrs{
      {"kernel_shape", Ints{2}}, {"strides", Ints{3}}, {"pads", Ints{0, 1}}, {"ceil_mode", 1}};
  EXPECT_EQ(g.shape(g.add1("AveragePool", {x}, attrs)), (Shape{1, 1, 1}));
  EXPECT_EQ(g.shape(g.add1("MaxPool", {x}, attrs)), (Shape{1, 1, 1}));
}

TEST(MaxPool, IndicesCountThroughTheWholeTensorInTheAskedOrder) {
  const Inputs x{{1, 2, 2, 3}, {0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};
  Attrs attrs{{"kernel_shape", Ints{2, 3}}};
  EXPECT_THAT(run("MaxPool", {x}, attrs, 2)[1], ElementsAre(1, 11));
  attrs.set("storage_order", int64_t{1});
  EXPECT_THAT(run("MaxPool", {x}, attrs, 2)[1], ElementsAre(2, 11));
}

TEST(MaxPool, PaddingIsNeverTheMaximum) {
  EXPECT_THAT(
      run1("MaxPool", {{{1, 1, 2}, {-5, -3}}}, {{"kernel_shape", Ints{2}}, {"pads", Ints{1, 1}}}),
      ElementsAre(-5, -3, -3));
}

TEST(MaxPoolGrad, TheFirstOfEqualMaximaTakesTheGradient) {
  EXPECT_THAT(run1("MaxPoolGrad", {{{1, 1, 1, 1}, {7}}, {{1, 1, 2, 2}, {1, 4, 4, 4}}},
                   {{"kernel_shape", Ints{2, 2}}}),
              ElementsAre(0, 7, 0, 0));
}

TEST(BatchNormalization, TrainingMovesTheRunningStatisticsTowardsTheBatch) {
  const std::vector<Inputs> in = {
      {{2, 1, 2}, {1, 1, 3, 3}}, {{1}, {2}}, {{1}, {10}}, {{1}, {100}}, {{1}, {50}}};
  const std::vector<Doubles> y =
      run("BatchNormalization", in, {{"training_mode", 1}, {"momentum", 0.9}, {"epsilon", 0.0}}, 3);
  EXPECT_THAT(y[0], near_values({8, 8, 12, 12}));
  EXPECT_THAT(y[1], near_values({90.2}));  // 0.9 * 100 + 0.1 * 2
  EXPECT_THAT(y[2], near_values({45.1}));  // 0.9 * 50 + 0.1 * 1: the population's variance
}

TEST(BatchNormalization, InferenceUsesTheGivenStatistics) {
  const std::vector<Inputs> in = {
      {{1, 2, 1}, {5, 5}}, {{2}, {1, 2}}, {{2}, {0, 1}}, {{2}, {1, 3}}, {{2}, {3, 0}}};
  EXPECT_THAT(run1("BatchNormalization", in, {{"epsilon", 1.0}}), near_values({2, 5}));
}

TEST(LayerNormalization, NormalisesFromTheAxisOnAndReportsItsStatistics) {
  const std::vector<Doubles> y =
      run("LayerNormalization", {{{2, 2, 1}, {1, 3, 10, 14}}, {{2, 1}, {1, 2}}, {{1}, {0.5}}},
          {{"axis", 1}, {"epsilon", 0.0}}, 3);
  EXPECT_THAT(y[0], near_values({-0.5, 2.5, -0.5, 2.5}));
  EXPECT_THAT(y[1], near_values({2, 12}));
  EXPECT_THAT(y[2], near_values({1, 0.5}));
}

TEST(InstanceNormalization, EveryPlaneHasItsOwnStatistics) {
  EXPECT_THAT(run1("InstanceNormalization", {{{2, 1, 2}, {1, 3, 10, 14}}, {{1}, {2}}, {{1}, {1}}},
                   {{"epsilon", 0.0}}),
              near_values({-1, 3, -1, 3}));
}

TEST(LRN, EqualsPyTorch) {
  EXPECT_THAT(run1("LRN", {{{1, 6, 1, 1}, count_up(6)}},
                   {{"size", 3}, {"alpha", 0.3}, {"beta", 0.75}, {"bias", 2.0}}),
              near_values({0.5029733718731741, 0.7987682757159081, 0.9109073255437746,
                           0.9294723209701633, 0.909685356182287, 1.249647389311887}));
}

TEST(LRN, AnEvenSizeReachesFurtherForwardThanBack) {
  // size 2: a channel and the one after it.
  EXPECT_THAT(run1("LRN", {{{1, 3}, {1, 2, 3}}}, {{"size", 2}, {"alpha", 2.0}, {"beta", 1.0}}),
              near_values({1 / 6.0, 2 / 14.0, 3 / 10.0}));
}

TEST(Softmax, LargeValuesDoNotOverflow) {
  const double e = std::exp(1);
  EXPECT_THAT(run1("Softmax", {{{1, 2}, {10000, 10001}}}), near_values({1 / (1 + e), e / (1 + e)}));
  EXPECT_THAT(run1("LogSoftmax", {{{1, 2}, {-10000, 10000}}}), near_values({-20000, 0}));
}

TEST(Softmax, SumsToOneAlongItsAxisOnly) {
  EXPECT_THAT(run1("Softmax", {{{2, 2}, {0, 5, 0, 5}}}, {{"axis", 0}}),
              near_values({0.5, 0.5, 0.5, 0.5}));
}

TEST(Gemm, ScalesTheProductAndTheBroadcastBias) {
  const Inputs a{{2, 2}, {1, 2, 3, 4}}, b{{2, 2}, {5, 6, 7, 8}}, c{{2, 1}, {1, 2}};
  EXPECT_THAT(run1("Gemm", {a, b, c}, {{"alpha", 2.0}, {"beta", 10.0}}),
              ElementsAre(48, 54, 106, 120));
  EXPECT_THAT(run1("Gemm", {a, b}, {{"transA", 1}}), ElementsAre(26, 30, 38, 44));
  EXPECT_THAT(run1("Gemm", {a, b}, {{"transB", 1}}), ElementsAre(17, 23, 39, 53));
}

Shape matmul_shape_of(const Shape& a, const Shape& b) {
  Graph g;
  const ValueId x = g.add_input("a", {DType::kF32, a}), y = g.add_input("b", {DType::kF32, b});
  return g.shape(g.add1("MatMul", {x, y}));
}

TEST(MatMul, ShapesFollowNumPy) {
  EXPECT_EQ(matmul_shape_of({3}, {3}), Shape{});
  EXPECT_EQ(matmul_shape_of({3}, {5, 3, 2}), (Shape{5, 2}));
  EXPECT_EQ(matmul_shape_of({5, 2, 3}, {3}), (Shape{5, 2}));
  EXPECT_EQ(matmul_shape_of({4, 1, 2, 3}, {5, 3, 7}), (Shape{4, 5, 2, 7}));
  EXPECT_THAT(run1("MatMul", {{{2, 1, 2}, {1, 2, 3, 4}}, {{2}, {10, 1}}}), ElementsAre(12, 34));
}

TEST(SoftmaxCrossEntropy, EqualsPyTorchWithAndWithoutSmoothing) {
  const Inputs logits{{2, 3}, {1, 2, 3, 0.5, -1, 0}}, labels{DType::kI64, {2}, {2, 0}};
  const Inputs first{{2}, {1, 0}}, weighted{{2}, {0.5, 2}};
  EXPECT_THAT(run1("SoftmaxCrossEntropy", {logits, labels, first}),
              near_values({0.4076059644443804}));
  EXPECT_THAT(run1("SoftmaxCrossEntropy", {logits, labels, weighted}, {{"smoothing", 0.1}}),
              near_values({0.5 * 0.5076059644443804 + 2 * 0.670797272003395}));
}

// Targets (0.25, 0, 0.75) and (0.4, 0.6, 0); then with CrossEntropyLoss(weight=(2, 0.5, 1)).
TEST(SoftmaxCrossEntropy, OfSoftLabelsEqualsPyTorch) {
  const Inputs logits{{2, 3}, {1, 2, 3, 0.5, -1, 0}}, labels{DType::kI64, {2, 2}, {0, 2, 1, 0}};
  const Inputs shares{{2, 2}, {0.25, 0.75, 0.6, 0.4}}, dloss{{}, {1}};
  const Attrs smooth{{"smoothing", 0.1}};
  EXPECT_THAT(run1("SoftmaxCrossEntropy", {logits, labels, shares}, smooth),
              near_values({2.4384032364477757}));
  EXPECT_THAT(run1("SoftmaxCrossEntropyGrad", {dloss, logits, labels, shares}, smooth),
              near_values({-0.16830276016295292, 0.21139513772146432, -0.043092377558511585,
                           0.15321605393284637, -0.4513816810236045, 0.2981656270907582}));
  const Inputs weighted{{2, 2}, {0.25 * 2, 0.75, 0.6 * 0.5, 0.4 * 2}};
  EXPECT_THAT(run1("SoftmaxCrossEntropy", {logits, labels, weighted}),
              near_values({2.624051121425877}));
  EXPECT_THAT(run1("SoftmaxCrossEntropyGrad", {dloss, logits, labels, weighted}),
              near_values({-0.38746178353702443, 0.30591058881849703, 0.08155119471852723,
                           -0.1987956740072024, -0.16585318245929825, 0.3646488564665007}));
}

TEST(SoftmaxCrossEntropy, ARowOfWeightZeroCountsForNothing) {
  const Inputs logits{{2, 2}, {NAN, INFINITY, 0, 0}}, labels{DType::kI64, {2}, {-1, 1}},
      w{{2}, {0, 1}};
  EXPECT_THAT(run1("SoftmaxCrossEntropy", {logits, labels, w}), near_values({std::log(2)}));
  EXPECT_THAT(run1("SoftmaxCrossEntropyGrad", {{{}, {1}}, logits, labels, w}),
              near_values({0, 0, 0.5, -0.5}));
}

TEST(SoftmaxCrossEntropy, ALabelOutOfRangeIsAnError) {
  const Inputs logits{{1, 2}, {0, 0}}, labels{DType::kI64, {1}, {2}}, w{{1}, {1}};
  EXPECT_THROW(run1("SoftmaxCrossEntropy", {logits, labels, w}), Error);
  const Inputs two{DType::kI64, {1, 2}, {0, 2}}, all{{1, 2}, {0.5, 0.5}}, first{{1, 2}, {1, 0}};
  EXPECT_THROW(run1("SoftmaxCrossEntropy", {logits, two, all}), Error);
  EXPECT_THAT(run1("SoftmaxCrossEntropy", {logits, two, first}), near_values({std::log(2)}));
}

// Two steps from w = (0.5, -1) with moments of zero, as the golden numbers from PyTorch: the next
// w.
Doubles two_steps(const std::string& op, size_t moments, const std::vector<Doubles>& gradients,
                  const std::vector<Doubles>& hyper, Attrs attrs = {}) {
  std::vector<Doubles> s(1 + moments, Doubles{0, 0});
  s[0] = {0.5, -1};
  for (size_t t = 0; t < 2; ++t) {
    std::vector<Inputs> in = {{{2}, s[0]}, {{2}, gradients[t]}};
    for (size_t i = 1; i <= moments; ++i) in.emplace_back(Shape{2}, s[i]);
    in.emplace_back(Shape{static_cast<int64_t>(hyper[t].size())}, hyper[t]);
    s = run(op, in, attrs, static_cast<int>(1 + moments));
  }
  return s[0];
}

const std::vector<Doubles> kGradients = {{0.1, -0.2}, {0.3, 0.4}};

TEST(SgdStep, EqualsPyTorch) {
  const Doubles plain = {0.1, 0.9, 0.01, 1}, damped = {0.1, 0.9, 0.01, 0.75};
  const auto two = [&](const std::vector<Doubles>& hyper, bool nesterov) {
    return two_steps("SgdStep", 1, kGradients, hyper, {{"nesterov", nesterov}});
  };
  EXPECT_THAT(two({plain, plain}, false), near_values({0.4495605, -0.999121}));
  EXPECT_THAT(two({plain, plain}, true), near_values({0.413632905, -1.01726581}));
  EXPECT_THAT(two({plain, damped}, false), near_values({0.457182875, -0.98936575}));
}

std::vector<Doubles> adam_hyper(double beta2) {
  std::vector<Doubles> hyper;
  for (const int t : {1, 2}) {
    hyper.push_back({0.01, 0.9, beta2, 1e-8, 0.1, 1 - std::pow(0.9, t), 1 - std::pow(beta2, t)});
  }
  return hyper;
}

TEST(AdamStep, EqualsPyTorchsAdamAndAdamW) {
  const auto two = [](bool decoupled) {
    return two_steps("AdamStep", 2, kGradients, adam_hyper(0.999), {{"decoupled", decoupled}});
  };
  EXPECT_THAT(two(false), near_values({0.4805180578399635, -0.9905429538357655}));
  EXPECT_THAT(two(true), near_values({0.479832690219559, -0.9916720356541037}));
}

// The second gradient of the second element is the smaller one.
TEST(AdamStep, WithAFifthStateEqualsPyTorchsAmsgrad) {
  const std::vector<Doubles> gradients = {{0.1, -2}, {0.3, 0.4}};
  const auto two = [&](size_t moments, bool decoupled) {
    return two_steps("AdamStep", moments, gradients, adam_hyper(0.5), {{"decoupled", decoupled}});
  };
  EXPECT_THAT(two(2, false), near_values({0.4814468070313502, -0.9832396727957935}));
  EXPECT_THAT(two(3, false), near_values({0.4814468070313502, -0.9851225073426139}));
  EXPECT_THAT(two(3, true), near_values({0.4808541704927517, -0.9834987821303495}));
}

TEST(RmsPropStep, EqualsPyTorchPlainAndCentred) {
  const auto two = [](size_t moments, const Doubles& hyper) {
    return two_steps("RmsPropStep", moments, kGradients, {hyper, hyper});
  };
  EXPECT_THAT(two(2, {0.01, 0.99, 1e-8, 0, 0}),
              near_values({0.3050843304546708, -0.9895323261670684}));
  const Doubles all = {0.01, 0.9, 1e-6, 0.1, 0.8};
  EXPECT_THAT(two(2, all), near_values({0.4138243465678629, -0.9661346000587602}));
  EXPECT_THAT(two(3, all), near_values({0.4079833972673873, -0.9630691643770202}));
}

// Where rounding makes the mean's square the larger one there is still a number.
TEST(RmsPropStep, AVarianceIsNotBelowZero) {
  const std::vector<Doubles> s = run("RmsPropStep",
                                     {{{1}, {1}},
                                      {{1}, {1}},
                                      {{1}, {0}},
                                      {{1}, {1}},
                                      {{1}, {1.25}},
                                      {{5}, {0.5, 0.5, 0.25, 0, 0}}},
                                     {}, 4);
  EXPECT_THAT(s[0], ElementsAre(1 - 0.5 * 4));
  EXPECT_THAT(s[3], ElementsAre(1.125));
}

TEST(Dropout, IsTheIdentityAtInference) {
  const std::vector<Doubles> y = run("Dropout", {{{3}, {1, -2, 3}}, {{}, {0.9}}}, {}, 2);
  EXPECT_THAT(y[0], ElementsAre(1, -2, 3));
  EXPECT_THAT(y[1], ElementsAre(1, 1, 1));
}

TEST(DropoutMask, DropsTheAskedShareAndChangesWithSeedStepAndStream) {
  const auto mask = [](double seed, double step, int64_t stream) {
    return run1("DropoutMask", {{DType::kI64, {2}, {seed, step}}},
                {{"ratio", 0.25}, {"shape", Ints{100, 100}}, {"stream", stream}});
  };
  const Doubles m = mask(7, 3, 1);
  int64_t dropped = 0;
  for (size_t i = 0; i < m.size(); ++i) {
    const bool drop = Rng(7, 1 ^ (uint64_t{3} << 20)).uniform(i) < 0.25;
    ASSERT_DOUBLE_EQ(m[i], drop ? 0 : 1 / 0.75);
    dropped += drop;
  }
  EXPECT_NEAR(static_cast<double>(dropped), 2500, 5 * std::sqrt(10000 * 0.25 * 0.75));
  EXPECT_EQ(m, mask(7, 3, 1));
  EXPECT_NE(m, mask(8, 3, 1));
  EXPECT_NE(m, mask(7, 4, 1));
  EXPECT_NE(m, mask(7, 3, 2));
}

TEST(QuantizeLinear, RoundsHalfToEvenAndSaturates) {
  const Inputs x{{8}, {0.5, 1.5, 2.5, -0.5, -1.5, 300, -300, INFINITY}}, scale{{}, {1}};
  EXPECT_THAT(run1("QuantizeLinear", {x, scale, {DType::kU8, {}, {10}}}),
              ElementsAre(10, 12, 12, 10, 8, 255, 0, 255));
  EXPECT_THAT(run1("QuantizeLinear", {x, scale, {DType::kI8, {}, {0}}}),
              ElementsAre(0, 2, 2, 0, -2, 127, -128, 127));
}

TEST(QuantizeLinear, ScalesPerAxisAndPerBlock) {
  EXPECT_THAT(run1("QuantizeLinear", {{{1, 2, 2}, {2, 4, 6, 8}}, {{2}, {1, 2}}}),
              ElementsAre(2, 4, 3, 4));
  EXPECT_THAT(run1("QuantizeLinear", {{{1, 3}, {2, 4, 6}}, {{1, 2}, {1, 2}}}, {{"block_size", 2}}),
              ElementsAre(2, 4, 3));
}

TEST(DequantizeLinear, TakesTheZeroPointOffFirst) {
  EXPECT_THAT(
      run1("DequantizeLinear",
           {{DType::kU8, {2, 2}, {0, 128, 255, 3}}, {{2}, {2, 0.5}}, {DType::kU8, {2}, {128, 1}}},
           {{"axis", 0}}),
      ElementsAre(-256, 0, 127, 1));
}

TEST(DynamicQuantizeLinear, TheRangeHoldsZero) {
  const std::vector<Doubles> y = run("DynamicQuantizeLinear", {{{3}, {1, 2, 255}}});
  EXPECT_THAT(y[0], ElementsAre(1, 2, 255));
  EXPECT_THAT(y[1], ElementsAre(1));
  EXPECT_THAT(y[2], ElementsAre(0));
  EXPECT_THAT(run("DynamicQuantizeLinear", {{{2}, {-51, 204}}})[2], ElementsAre(51));
}

TEST(ConvInteger, PaddingStandsForTheZeroPoint) {
  EXPECT_THAT(
      run1(
          "ConvInteger",
          {{DType::kU8, {1, 1, 2}, {3, 5}}, {DType::kI8, {1, 1, 2}, {1, 1}}, {DType::kU8, {}, {2}}},
          {{"pads", Ints{1, 1}}}),
      ElementsAre(1, 4, 3));
}

TEST(QLinearConv, RescalesTheSumWithItsBias) {
  const DType u = DType::kU8, i = DType::kI8;
  // (13 - 3) * (2, -2) + (0, 6) = (20, -14); times 0.5 * (1, 0.5) / 2 = (5, -1.75); plus 10.
  EXPECT_THAT(run1("QLinearConv", {{u, {1, 1, 1}, {13}},
                                   {{}, {0.5}},
                                   {u, {}, {3}},
                                   {i, {2, 1, 1}, {2, -2}},
                                   {{2}, {1, 0.5}},
                                   {i, {2}, {0, 0}},
                                   {{}, {2}},
                                   {u, {}, {10}},
                                   {DType::kI32, {2}, {0, 6}}}),
              ElementsAre(15, 8));
}

TEST(FusedQLinearMatMul, ScalesColumnsAndLeavesBytesOrF32) {
  const DType u = DType::kU8, i = DType::kI8;
  // (13 - 3, 1 - 3) times (2, -2; 1, 3) = (18, -26); times 0.5 * (1, 0.5) = (9, -6.5).
  std::vector<Inputs> in = {{u, {1, 2}, {13, 1}},       {{}, {0.5}},     {u, {}, {3}},
                            {i, {2, 2}, {2, -2, 1, 3}}, {{2}, {1, 0.5}}, {i, {2}, {0, 0}}};
  EXPECT_THAT(run1("FusedQLinearMatMul", in), ElementsAre(9, -6.5));
  in.insert(in.end(), {{{}, {2}}, {u, {}, {10}}, {{2}, {0, 1}}});
  // Plus (0, 1), in units of 2, from 10: 4.5 rounds to 4, -2.75 to -3.
  EXPECT_THAT(run1("FusedQLinearMatMul", in), ElementsAre(14, 7));
  EXPECT_THAT(run1("FusedQLinearMatMul", in, {{"steps", "Relu x0"}}), ElementsAre(14, 10));
}

TEST(FusedQLinearConv, AddsTheResidualBeforeTheActivation) {
  const DType u = DType::kU8, i = DType::kI8;
  // (13 - 3) * (2, -2) + (0, 6) = (20, -14); times 0.5 * (1, 0.5) / 2 = (5, -1.75); plus a residual
  // of (7 - 1, 9 - 1) * 3 / 2 = (9, 12).
  const std::vector<Inputs> in = {{u, {1, 1, 1}, {13}},
                                  {{}, {0.5}},
                                  {u, {}, {3}},
                                  {i, {2, 1, 1}, {2, -2}},
                                  {{2}, {1, 0.5}},
                                  {i, {2}, {0, 0}},
                                  {{}, {2}},
                                  {u, {}, {10}},
                                  {DType::kI32, {2}, {0, 6}},
                                  {i, {1, 2, 1}, {7, 9}},
                                  {{}, {3}},
                                  {i, {}, {1}}};
  EXPECT_THAT(run1("FusedQLinearConv", in), ElementsAre(24, 20));
  const Attrs clip{{"steps", "Clip x0 21 25"}};
  EXPECT_THAT(run1("FusedQLinearConv", in, clip), ElementsAre(22, 20));  // [10.5, 12.5], to even
  const std::vector<Inputs> alone(in.begin(), in.begin() + 9);
  EXPECT_THAT(run1("FusedQLinearConv", alone, {{"steps", "Relu x0"}}), ElementsAre(15, 10));
  EXPECT_EQ(run1("FusedQLinearConv", alone), run1("QLinearConv", alone));
}

TEST(QLinearMatMul, GivesTheNumbersOfOnnxsOwnExample) {
  const DType u = DType::kU8;
  EXPECT_THAT(
      run1("QLinearMatMul", {{u, {2, 4}, {208, 236, 0, 238, 3, 214, 255, 29}},
                             {{1}, {0.0066}},
                             {u, {1}, {113}},
                             {u, {4, 3}, {152, 51, 244, 60, 26, 255, 0, 127, 246, 127, 254, 247}},
                             {{1}, {0.00705}},
                             {u, {1}, {114}},
                             {{1}, {0.0107}},
                             {u, {1}, {118}}}),
      ElementsAre(168, 115, 255, 1, 66, 151));
}

}  // namespace
}  // namespace ndtrain
