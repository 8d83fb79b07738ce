// Definitions of the elementwise, reducing and moving ops, checked by hand, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "framework/graph/op.h"
#include "framework/runtime/interpreter.h"

namespace ndtrain {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr DType kF32 = DType::kF32, kI32 = DType::kI32, kI64 = DType::kI64, kBool = DType::kBool;

struct In {
  TensorType type;
  std::vector<double> values;
};

In ints(std::vector<double> v) {
  const int64_t n = static_cast<int64_t>(v.size());
  return {{kI64, {n}}, std::move(v)};
}
In f32(Shape s, std::vector<double> v) { return {{kF32, std::move(s)}, std::move(v)}; }
In row(std::vector<double> v) {
  const int64_t n = static_cast<int64_t>(v.size());
  return {{kF32, {n}}, std::move(v)};
}
In counted(Shape s, DType t = kF32) {  // 0, 1, 2, …
  std::vector<double> v;
  for (int64_t i = 0; i < s.count(); ++i) v.push_back(static_cast<double>(i));
  return {{t, std::move(s)}, std::move(v)};
}
const In kAbsent{{DType::kNone, {}}, {}};

// One node on constants, through the interpreter.
std::vector<Tensor> run(const char* op, const std::vector<In>& in, Attrs attrs = {},
                        int outputs = 0) {
  Graph g;
  std::vector<ValueId> inputs;
  for (const In& i : in) {
    inputs.push_back(i.type.dtype == DType::kNone
                         ? kNone
                         : g.add_constant("", Tensor::from_doubles(i.type, i.values)));
  }
  for (const ValueId y : g.add(op, inputs, std::move(attrs), outputs)) g.mark_output(y);
  return interpret_outputs(g, {});
}

std::vector<double> values(const char* op, const std::vector<In>& in, Attrs attrs = {}) {
  return run(op, in, std::move(attrs))[0].to_doubles();
}

Shape shape_of(const char* op, const std::vector<In>& in, Attrs attrs = {}) {
  return run(op, in, std::move(attrs))[0].shape();
}

auto near(const std::vector<double>& v, double tolerance = 1e-6) {
  std::vector<::testing::Matcher<double>> each;
  for (const double x : v) each.push_back(DoubleNear(x, tolerance));
  return ElementsAreArray(each);
}

// What the refusal says; "" when there is none.
std::string refusal(const char* op, const std::vector<In>& in, Attrs attrs = {}, int outputs = 0) {
  try {
    run(op, in, std::move(attrs), outputs);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

Attrs axis(int64_t a) { return {{"axis", a}}; }

TEST(Unary, RoundTakesTheEvenNeighbourOfAHalf) {
  EXPECT_THAT(values("Round", {row({0.5, 1.5, 2.5, -0.5, -1.5, 0.9})}),
              ElementsAre(0, 2, 2, 0, -2, 1));
}

TEST(Unary, NotANumberStaysNotANumber) {
  for (const char* op : {"Relu", "Abs", "Sign", "Clip", "Sigmoid", "HardSwish"}) {
    EXPECT_TRUE(std::isnan(values(op, {row({std::nan("")})})[0])) << op;
  }
}

TEST(Unary, SoftplusDoesNotOverflow) {
  EXPECT_THAT(values("Softplus", {row({-1000, 0, 1000})}), near({0, std::log(2.0), 1000}));
}

TEST(Activation, FollowsItsFormula) {
  EXPECT_THAT(values("HardSwish", {row({-4, -3, 1, 3, 4})}), near({0, 0, 2.0 / 3, 3, 4}));
  EXPECT_THAT(values("HardSigmoid", {row({-10, 0, 1, 10})}), near({0, 0.5, 0.7, 1}));
  EXPECT_THAT(values("LeakyRelu", {row({-2, 2})}, {{"alpha", 0.1}}), near({-0.2, 2}));
  EXPECT_THAT(values("Elu", {row({-1, 2})}, {{"alpha", 2.0}}), near({2 * std::expm1(-1), 2}));
  EXPECT_THAT(values("Celu", {row({-1, 2})}, {{"alpha", 2.0}}), near({2 * std::expm1(-0.5), 2}));
  EXPECT_THAT(values("ThresholdedRelu", {row({1, 1.5})}), near({0, 1.5}));
  EXPECT_THAT(values("Gelu", {row({1})}), near({0.8413447460685429}));
  EXPECT_THAT(values("Gelu", {row({1})}, {{"approximate", std::string("tanh")}}),
              near({0.8411919906082768}));
  EXPECT_THAT(values("PRelu", {f32({2, 2}, {-1, 1, -2, 2}), row({0.5, 7})}),
              near({-0.5, 1, -1, 2}));
}

TEST(Clip, UpperLimitWinsOverLowerLimit) {
  const In low{{kF32, {}}, {3}}, high{{kF32, {}}, {-3}};
  EXPECT_THAT(values("Clip", {row({-9, 0, 9}), low, high}), ElementsAre(-3, -3, -3));
  EXPECT_THAT(values("Clip", {row({-9, 0, 9}), kAbsent, high}), ElementsAre(-9, -3, -3));
  EXPECT_THAT(refusal("Clip", {row({1}), row({1, 2})}), HasSubstr("must be one number"));
}

TEST(Binary, IntegersTruncateTowardsZeroAndWrap) {
  const In a{{kI32, {4}}, {-7, 7, -7, 5}}, b{{kI32, {4}}, {2, -2, -2, 0}};
  EXPECT_THAT(values("Div", {a, b}), ElementsAre(-3, -3, 3, 0));
  const In u{{DType::kU8, {2}}, {200, 3}}, v{{DType::kU8, {2}}, {100, 5}};
  EXPECT_THAT(values("Add", {u, v}), ElementsAre(44, 8));
  EXPECT_THAT(values("Sub", {u, v}), ElementsAre(100, 254));
}

TEST(Binary, ModTakesTheSignOfTheDivisorAndFmodThatOfTheDividend) {
  const In a{{kI32, {4}}, {-4, 7, 5, -7}}, b{{kI32, {4}}, {3, -3, 8, 3}};
  EXPECT_THAT(values("Mod", {a, b}), ElementsAre(2, -2, 5, 2));
  EXPECT_THAT(values("Mod", {a, b}, {{"fmod", int64_t{1}}}), ElementsAre(-1, 1, 5, -1));
  EXPECT_THAT(values("Mod", {row({-4.5, 4.5}), row({3, -3})}), ElementsAre(1.5, -1.5));
}

TEST(Binary, TheBaseDecidesTheTypeOfAPower) {
  const In a{{kI32, {3}}, {1, 2, 3}};
  const Tensor y = run("Pow", {a, row({2, 2.5, 3})})[0];
  EXPECT_EQ(y.type().dtype, kI32);
  EXPECT_THAT(y.to_doubles(), ElementsAre(1, 5, 27));
}

TEST(Binary, WhatDoesNotBroadcastIsRefused) {
  EXPECT_THAT(refusal("Add", {row({1, 2}), row({1, 2, 3})}), HasSubstr("[2] with [3]"));
  EXPECT_THAT(refusal("Add", {row({1}), ints({1})}), HasSubstr("differ in dtype"));
  EXPECT_THAT(refusal("Less", {{{kBool, {1}}, {1}}, {{kBool, {1}}, {1}}}), HasSubstr("numeric"));
  EXPECT_THAT(refusal("And", {row({1}), row({1})}), HasSubstr("bool"));
  EXPECT_THAT(refusal("Where", {row({1}), row({1}), row({1})}), HasSubstr("bool"));
  EXPECT_THAT(refusal("PRelu", {row({1}), row({1, 2})}), HasSubstr("does not broadcast"));
}

TEST(Variadic, BroadcastsAndHandsNaNOn) {
  EXPECT_THAT(values("Max", {row({1, 5}), f32({2, 1}, {3, 4})}), ElementsAre(3, 5, 4, 5));
  EXPECT_THAT(values("Mean", {row({1, 5}), row({3, 4}), row({2, 0})}), ElementsAre(2, 3));
  for (const char* op : {"Max", "Min"}) {
    EXPECT_TRUE(std::isnan(values(op, {row({std::nan("")}), row({1})})[0])) << op;
    EXPECT_TRUE(std::isnan(values(op, {row({1}), row({std::nan("")})})[0])) << op;
  }
}

TEST(Reduce, OverNothingGivesTheNeutralElement) {
  const In none{{kF32, {2, 0}}, {}};
  const std::vector<In> in = {none, ints({1})};
  EXPECT_THAT(values("ReduceSum", in), ElementsAre(0, 0));
  EXPECT_THAT(values("ReduceProd", in), ElementsAre(1, 1));
  EXPECT_THAT(values("ReduceMax", in), ElementsAre(-kInf, -kInf));
  EXPECT_THAT(values("ReduceMin", in), ElementsAre(kInf, kInf));
  EXPECT_THAT(values("ReduceMax", {{{DType::kI8, {1, 0}}, {}}, ints({1})}), ElementsAre(-128));
  EXPECT_THAT(values("ReduceMin", {{{kBool, {1, 0}}, {}}, ints({1})}), ElementsAre(1));
  EXPECT_THAT(values("ReduceMax", {{{kBool, {1, 0}}, {}}, ints({1})}), ElementsAre(0));
}

TEST(Reduce, AxesAndKeptDims) {
  const In x = counted({2, 3, 2});
  EXPECT_EQ(shape_of("ReduceSum", {x}), Shape({1, 1, 1}));
  EXPECT_EQ(shape_of("ReduceSum", {x, ints({-1, 0})}, {{"keepdims", int64_t{0}}}), Shape({3}));
  EXPECT_THAT(values("ReduceSum", {x, ints({-1, 0})}), ElementsAre(14, 22, 30));
  EXPECT_THAT(values("ReduceSum", {x, ints({})}, {{"noop_with_empty_axes", int64_t{1}}}),
              ElementsAreArray(x.values));
  EXPECT_THAT(refusal("ReduceSum", {x, ints({3})}), HasSubstr("axes"));
  EXPECT_THAT(refusal("ReduceSum", {x, ints({1, -2})}), HasSubstr("twice"));
}

TEST(Reduce, LogSumExpDoesNotOverflow) {
  EXPECT_THAT(values("ReduceLogSumExp", {row({1000, 1000})}), near({1000 + std::log(2.0)}, 1e-3));
  EXPECT_THAT(values("ReduceLogSumExp", {row({-kInf, -kInf})}), ElementsAre(-kInf));
}

TEST(ArgMax, TakesTheFirstOrTheLastOfEquals) {
  const In x = f32({2, 3}, {3, 1, 3, 2, 2, 1});
  EXPECT_THAT(values("ArgMax", {x}, axis(1)), ElementsAre(0, 0));
  EXPECT_THAT(values("ArgMax", {x}, {{"axis", int64_t{1}}, {"select_last_index", int64_t{1}}}),
              ElementsAre(2, 1));
  EXPECT_THAT(values("ArgMin", {x}, axis(0)), ElementsAre(1, 0, 1));
  EXPECT_THAT(refusal("ArgMax", {{{kF32, {2, 0}}, {}}}, axis(1)), HasSubstr("no elements"));
}

TEST(Concat, RefusesWhatDiffersBesideTheAxis) {
  EXPECT_THAT(refusal("Concat", {f32({1, 2}, {1, 2}), f32({1, 3}, {1, 2, 3})}, axis(0)),
              HasSubstr("differ beside axis 0"));
  EXPECT_THAT(refusal("Concat", {row({1})}), HasSubstr("axis is missing"));
}

TEST(Split, TheLastPartMayBeSmaller) {
  const auto parts = run("Split", {counted({7})}, {{"num_outputs", int64_t{4}}}, 4);
  EXPECT_THAT(parts[0].to_doubles(), ElementsAre(0, 1));
  EXPECT_THAT(parts[3].to_doubles(), ElementsAre(6));
  EXPECT_THAT(refusal("Split", {counted({7}), ints({3, 3})}, {}, 2), HasSubstr("sum to 6"));
  EXPECT_THAT(refusal("Split", {counted({7}), ints({8, -1})}, {}, 2), HasSubstr("part of -1"));
  EXPECT_THAT(refusal("Split", {counted({7})}, {{"num_outputs", int64_t{3}}}, 2),
              HasSubstr("num_outputs is 3"));
}

TEST(Slice, ClampsAndCountsFromTheBack) {
  const In x = counted({10});
  const double far = 9.3e18;
  EXPECT_THAT(values("Slice", {x, ints({-3}), ints({far})}), ElementsAre(7, 8, 9));
  EXPECT_THAT(values("Slice", {x, ints({far}), ints({-far}), ints({0}), ints({-4})}),
              ElementsAre(9, 5, 1));
  EXPECT_THAT(values("Slice", {x, ints({1}), ints({8}), ints({-1}), ints({3})}),
              ElementsAre(1, 4, 7));
  EXPECT_EQ(shape_of("Slice", {x, ints({5}), ints({5})}), Shape({0}));
  EXPECT_THAT(refusal("Slice", {x, ints({0}), ints({5}), ints({0}), ints({0})}),
              HasSubstr("step of axis 0 is 0"));
  EXPECT_THAT(refusal("Slice", {x, ints({0}), ints({5, 6})}), HasSubstr("1, 2"));
  EXPECT_THAT(refusal("Slice", {x, ints({0}), ints({5}), ints({1})}), HasSubstr("axes"));
}

TEST(Reshape, FillsInWhatRemains) {
  const In x = counted({2, 3, 4});
  EXPECT_EQ(shape_of("Reshape", {x, ints({0, -1})}), Shape({2, 12}));
  EXPECT_EQ(shape_of("Reshape", {x, ints({4, 0, 2})}), Shape({4, 3, 2}));
  EXPECT_THAT(refusal("Reshape", {x, ints({5, -1})}), HasSubstr("-1 does not fit"));
  EXPECT_THAT(refusal("Reshape", {x, ints({-1, -1})}), HasSubstr("more than one -1"));
  EXPECT_THAT(refusal("Reshape", {x, ints({2, 3})}), HasSubstr("cannot become"));
  EXPECT_THAT(refusal("Reshape", {x, ints({24, 1, 1, 0})}), HasSubstr("dim 3"));
  EXPECT_THAT(refusal("Reshape", {x, ints({-2, -12})}), ::testing::Not(::testing::IsEmpty()));
  EXPECT_EQ(shape_of("Reshape", {{{kF32, {0, 3}}, {}}, ints({3, 0})}, {{"allowzero", int64_t{1}}}),
            Shape({3, 0}));
}

TEST(Reshape, SqueezeAndUnsqueezeNameTheirDims) {
  EXPECT_EQ(shape_of("Squeeze", {counted({1, 3, 1})}), Shape({3}));
  EXPECT_EQ(shape_of("Squeeze", {counted({1, 3, 1}), ints({-1})}), Shape({1, 3}));
  EXPECT_THAT(refusal("Squeeze", {counted({1, 3, 1}), ints({1})}), HasSubstr("is not 1"));
  EXPECT_EQ(shape_of("Unsqueeze", {counted({3, 4}), ints({0, -1})}), Shape({1, 3, 4, 1}));
  EXPECT_THAT(refusal("Unsqueeze", {counted({3}), ints({0, -3})}), HasSubstr("twice"));
  EXPECT_THAT(refusal("Unsqueeze", {counted({3}), ints({2})}), HasSubstr("axis 2"));
}

TEST(Transpose, MovesDims) {
  EXPECT_THAT(values("Transpose", {counted({2, 3})}), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(shape_of("Transpose", {counted({2, 3, 4})}, {{"perm", Ints{1, 2, 0}}}),
            Shape({3, 4, 2}));
  EXPECT_THAT(refusal("Transpose", {counted({2, 3})}, {{"perm", Ints{0, 0}}}),
              HasSubstr("not a permutation"));
  EXPECT_THAT(refusal("Transpose", {counted({2, 3})}, {{"perm", Ints{0}}}), HasSubstr("1 dims"));
}

TEST(Transpose, DepthToSpaceReadsChannelsInEitherOrder) {
  const Attrs dcr = {{"blocksize", int64_t{2}}},
              crd = {{"blocksize", int64_t{2}}, {"mode", std::string("CRD")}};
  EXPECT_THAT(values("DepthToSpace", {counted({1, 8, 1, 1})}, dcr),
              ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
  EXPECT_THAT(values("DepthToSpace", {counted({1, 8, 1, 1})}, crd),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(Expand, BroadcastsBothWays) {
  EXPECT_EQ(shape_of("Expand", {counted({3, 1}), ints({2, 1, 6})}), Shape({2, 3, 6}));
  EXPECT_EQ(shape_of("Expand", {counted({3, 4}), ints({1})}), Shape({3, 4}));
  EXPECT_THAT(refusal("Expand", {counted({3}), ints({4})}), HasSubstr("[3] with [4]"));
  EXPECT_THAT(refusal("Expand", {counted({1}), ints({1e12, 1e12})}),
              ::testing::Not(::testing::IsEmpty()));
  EXPECT_THAT(values("Tile", {counted({2}), ints({3})}), ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(refusal("Tile", {counted({2}), ints({-1})}), HasSubstr("-1 times"));
  EXPECT_THAT(refusal("Tile", {counted({2}), ints({1, 1})}), HasSubstr("2 repeats"));
}

TEST(Pad, ContinuesInEveryMode) {
  const In x = counted({3});
  const auto mode = [](const char* m) { return Attrs{{"mode", std::string(m)}}; };
  EXPECT_THAT(values("Pad", {x, ints({2, 1})}), ElementsAre(0, 0, 0, 1, 2, 0));
  EXPECT_THAT(values("Pad", {x, ints({2, 1})}, mode("reflect")), ElementsAre(2, 1, 0, 1, 2, 1));
  EXPECT_THAT(values("Pad", {x, ints({2, 1})}, mode("edge")), ElementsAre(0, 0, 0, 1, 2, 2));
  EXPECT_THAT(values("Pad", {x, ints({2, 1})}, mode("wrap")), ElementsAre(1, 2, 0, 1, 2, 0));
  EXPECT_THAT(values("Pad", {x, ints({-1, 2}), {{kF32, {}}, {7}}}), ElementsAre(1, 2, 7, 7));
  EXPECT_THAT(refusal("Pad", {x, ints({-2, -2})}), HasSubstr("do not fit"));
  EXPECT_THAT(refusal("Pad", {x, ints({1})}), HasSubstr("1 pads"));
  EXPECT_THAT(refusal("Pad", {x, ints({1, 1})}, mode("mirror")), HasSubstr("mirror"));
}

TEST(Gather, IndicesOutOfRangeAreRefused) {
  const In x = counted({3, 2});
  EXPECT_THAT(values("Gather", {x, ints({-1, 0})}), ElementsAre(4, 5, 0, 1));
  EXPECT_THAT(values("Gather", {x, {{kI64, {}}, {1}}}, axis(1)), ElementsAre(1, 3, 5));
  EXPECT_THAT(refusal("Gather", {x, ints({3})}), HasSubstr("index 3"));
  EXPECT_THAT(refusal("Gather", {x, ints({-4})}), HasSubstr("index -4"));
  EXPECT_THAT(refusal("Gather", {x, row({1})}), HasSubstr("i32 or i64"));
  EXPECT_THAT(refusal("GatherND", {x, ints({0, 0, 0})}), HasSubstr("do not fit"));
  EXPECT_THAT(refusal("ScatterND", {x, {{kI64, {1, 1}}, {5}}, f32({1, 2}, {1, 2})}),
              HasSubstr("index 5"));
}

TEST(GatherND, TakesWhatLiesBehindACoordinate) {
  const In x = counted({2, 3, 2});
  EXPECT_THAT(values("GatherND", {x, {{kI64, {1, 2}}, {1, -1}}}), ElementsAre(10, 11));
  EXPECT_THAT(values("GatherND", {x, {{kI64, {2, 1}}, {2, 0}}}, {{"batch_dims", int64_t{1}}}),
              ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(refusal("GatherND", {x, {{kI64, {1, 1}}, {0}}}, {{"batch_dims", int64_t{1}}}),
              HasSubstr("batch dim 0 differs"));
}

TEST(ScatterND, PutsTheLastUpdateOfAPlaceOrCombinesAll) {
  const In x = row({1, 2, 3}), at = {{kI64, {3, 1}}, {2, 0, -1}}, updates = row({5, 6, 7});
  const auto by = [&](const char* how) {
    return values("ScatterND", {x, at, updates}, {{"reduction", std::string(how)}});
  };
  EXPECT_THAT(by("none"), ElementsAre(6, 2, 7));
  EXPECT_THAT(by("add"), ElementsAre(7, 2, 15));
  EXPECT_THAT(by("mul"), ElementsAre(6, 2, 105));
  EXPECT_THAT(by("min"), ElementsAre(1, 2, 3));
  EXPECT_THAT(by("max"), ElementsAre(6, 2, 7));
  EXPECT_THAT(refusal("ScatterND", {x, at, updates}, {{"reduction", std::string("mean")}}),
              HasSubstr("'mean'"));
}

TEST(Gather, GradientAddsUpRepeats) {
  EXPECT_THAT(values("GatherGrad", {row({1, 2, 4}), ints({1, 1, -1})},
                     {{"axis", int64_t{0}}, {"input_shape", Ints{4}}}),
              ElementsAre(0, 3, 0, 4));
}

TEST(ShapeOps, AreConstantsOnceTheInputIsTyped) {
  Graph g;
  const ValueId x = g.add_input("x", {kF32, {2, 3, 4}});
  const ValueId s = g.add1("Shape", {x}, {{"start", int64_t{1}}});
  EXPECT_EQ(g.value(s).kind, ValueKind::kConstant);
  EXPECT_THAT(g.value(s).data.to_ints(), ElementsAre(3, 4));
  EXPECT_TRUE(g.nodes().empty());
  EXPECT_THAT(refusal("Constant", {}), HasSubstr("must be one"));
  EXPECT_THAT(refusal("ConstantOfShape", {ints({-1})}), HasSubstr("-1"));
}

TEST(Cast, TruncatesRoundsAndTestsForZero) {
  const auto to = [](DType t) { return Attrs{{"to", static_cast<int64_t>(t)}}; };
  EXPECT_THAT(values("Cast", {row({-1.9, 1.9, 300})}, to(kI32)), ElementsAre(-1, 1, 300));
  EXPECT_THAT(values("Cast", {row({0, -0.5, 3})}, to(kBool)), ElementsAre(0, 1, 1));
  EXPECT_THAT(values("Cast", {row({1e6, 1.0004})}, to(DType::kF16)), ElementsAre(kInf, 1));
  EXPECT_THAT(refusal("Cast", {row({1})}, {{"to", int64_t{99}}}), HasSubstr("99"));
  EXPECT_THAT(refusal("Cast", {row({1})}, {{"to", int64_t{0}}}), HasSubstr("no dtype"));
}

TEST(IndexArithmetic, FollowsOnnx) {
  const auto one = [](double v) { return In{{kF32, {}}, {v}}; };
  EXPECT_THAT(values("Range", {one(10), one(4), one(-2)}), ElementsAre(10, 8, 6));
  EXPECT_EQ(shape_of("Range", {one(0), one(-1), one(1)}), Shape({0}));
  EXPECT_THAT(refusal("Range", {one(0), one(1), one(0)}), HasSubstr("by 0"));
  EXPECT_THAT(refusal("Range", {one(0), one(1), one(1e-30)}), HasSubstr("no range"));
  EXPECT_THAT(values("NonZero", {f32({2, 2}, {1, 0, 1, 1})}), ElementsAre(0, 1, 1, 0, 0, 1));
  EXPECT_THAT(values("CumSum", {row({1, 2, 3}), {{kI64, {}}, {0}}},
                     {{"exclusive", int64_t{1}}, {"reverse", int64_t{1}}}),
              ElementsAre(5, 3, 0));
  EXPECT_THAT(values("Trilu", {counted({2, 3}), {{kI64, {}}, {1}}}), ElementsAre(0, 1, 2, 0, 0, 5));
  EXPECT_THAT(values("OneHot", {ints({1, -1, 9}), {{kI64, {}}, {3}}, row({0, 1})}),
              ElementsAre(0, 1, 0, 0, 0, 1, 0, 0, 0));
}

TEST(ShapeInputs, MustBeKnownInAdvance) {
  Graph g;
  const ValueId x = g.add_input("x", {kF32, {2, 3}}), s = g.add_input("s", {kI64, {1}});
  for (const char* op : {"Reshape", "Expand", "Tile", "ReduceSum", "Squeeze", "Unsqueeze", "Pad"}) {
    try {
      g.add1(op, {x, s});
      ADD_FAILURE() << op << " took an unknown shape";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("must be known in advance")) << op;
    }
  }
}

TEST(Dtypes, AreThoseOnnxAllows) {
  const In i8{{DType::kI8, {1}}, {1}}, u32{{DType::kU32, {1}}, {1}}, b{{kBool, {1}}, {1}};
  EXPECT_THAT(refusal("Exp", {i8}), HasSubstr("float"));
  EXPECT_THAT(refusal("Neg", {u32}), HasSubstr("signed"));
  EXPECT_THAT(refusal("Abs", {b}), HasSubstr("numeric"));
  EXPECT_THAT(refusal("ReduceSum", {i8}), HasSubstr("32 or 64"));
  EXPECT_THAT(refusal("Sum", {i8}), HasSubstr("float"));
  EXPECT_EQ(refusal("ReduceMax", {i8}), "");
  EXPECT_EQ(refusal("Identity", {b}), "");
}

}  // namespace
}  // namespace ndtrain
