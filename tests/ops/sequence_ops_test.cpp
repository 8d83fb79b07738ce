// Numbers of ONNX's reference evaluator (onnx 1.23.2), or worked out by hand, for what goes over
// sequences and bits. And what is refused.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "framework/core/limits.h"
#include "tests/ops/op_outputs.h"

namespace ndtrain {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using Doubles = std::vector<double>;

auto near_to(const Doubles& expected) { return Pointwise(DoubleNear(2e-6), expected); }

// -2 k, -k, 0, k, 2 k, over and over.
Given ramp(const Shape& shape, double k) {
  Doubles v;
  for (int64_t i = 0; i < shape.count(); ++i) v.push_back(static_cast<double>(i % 5 - 2) * k);
  return {shape, v};
}

// x = 1, -1 and the weights of a cell of two states.
std::vector<Given> two_steps(int64_t gates) {
  return {Given({2, 1, 1}, {1, -1}), ramp({1, 2 * gates, 1}, 0.3), ramp({1, 2 * gates, 2}, 0.2),
          ramp({1, 4 * gates}, 0.1)};
}

TEST(Recurrent, CellsEqualOnnxsReference) {
  EXPECT_THAT(output_of("RNN", two_steps(1)), near_to({-0.664037, -0.291313, 0.619305, 0.237136}));
  EXPECT_THAT(output_of("GRU", two_steps(3)), near_to({0.381815, -0.428839, -0.035529, -0.111657}));
  EXPECT_THAT(output_of("GRU", two_steps(3), {{"linear_before_reset", int64_t{1}}}),
              near_to({0.427414, -0.418245, 0.005541, -0.079638}));
  const auto lstm = outputs_of("LSTM", two_steps(4), {}, 3);
  EXPECT_THAT(lstm[0], near_to({-0.02944, -0.050906, 0.092353, -0.071283}));
  EXPECT_THAT(lstm[1], near_to({0.092353, -0.071283}));
  EXPECT_THAT(lstm[2], near_to({0.207099, -0.168518}));
  std::vector<Given> peeping = two_steps(4);
  for (int k = 0; k < 3; ++k) peeping.push_back(Given::absent());
  peeping.push_back(ramp({1, 6}, 0.5));
  EXPECT_THAT(output_of("LSTM", peeping), near_to({-0.02944, -0.049941, 0.095248, -0.069387}));
}

// tanh(x + h / 2) over 1, 2, 3, of which the second image has two.
TEST(Recurrent, AShorterSequenceEndsInItsState) {
  const double a = std::tanh(1), b = std::tanh(2 + a / 2), c = std::tanh(3 + b / 2);
  const double second = std::tanh(2), first = std::tanh(1 + second / 2);  // the other way
  const std::vector<Given> in = {Given({3, 2, 1}, {1, 1, 2, 2, 3, 3}), Given({2, 1, 1}, {1, 1}),
                                 Given({2, 1, 1}, {0.5, 0.5}), Given::absent(),
                                 Given(DType::kI32, {2}, {3, 2})};
  const double r3 = std::tanh(3), r2 = std::tanh(2 + r3 / 2), r1 = std::tanh(1 + r2 / 2);
  const auto y = outputs_of("RNN", in, {{"direction", "bidirectional"}}, 2);
  EXPECT_THAT(y[0], near_to({a, a, r1, first, b, b, r2, second, c, 0, r3, 0}));
  EXPECT_THAT(y[1], near_to({c, b, r1, first}));
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  EXPECT_THAT(why_not("GRU", two_steps(4)), HasSubstr("W is f32[1,8,1], must be [1,6,1]"));
  EXPECT_THAT(why_not("RNN", two_steps(1), {{"direction", "backward"}}),
              HasSubstr("direction is 'backward', must be forward, reverse or bidirectional"));
  EXPECT_THAT(why_not("RNN", two_steps(1), {{"layout", int64_t{2}}}), HasSubstr("layout is 2"));
  EXPECT_THAT(why_not("LSTM", two_steps(4), {{"input_forget", int64_t{1}}}),
              HasSubstr("input_forget is 1, only 0 is supported"));
  std::vector<Given> in = two_steps(1);
  for (const int64_t extra : {0, 1}) {
    const int64_t steps = limits::kLoopTrips + extra;
    in[0] = Given({steps, 1, 1}, Doubles(static_cast<size_t>(steps), 0.0));
    EXPECT_EQ(why_not("RNN", in).find("has 1025 steps, must have 1 to 1024") != std::string::npos,
              extra == 1);
  }
}

// k . v is stored, a query reads it.
TEST(LinearAttention, KeepsAndCorrectsWhatKeysStandFor) {
  const Attrs delta{{"update_rule", "delta"},
                    {"q_num_heads", int64_t{1}},
                    {"kv_num_heads", int64_t{1}},
                    {"scale", 1.0}};
  const Given keys({1, 2, 2}, {1, 0, 1, 0}), rate({1, 2, 1}, {1, 0.5});
  // The second value halves the distance to it: 4 + (8 - 4) / 2.
  const auto y = outputs_of(
      "LinearAttention",
      {keys, keys, Given({1, 2, 1}, {4, 8}), Given::absent(), Given::absent(), rate}, delta, 2);
  EXPECT_THAT(y[0], near_to({4, 6}));
  EXPECT_THAT(y[1], near_to({6, 0}));
  EXPECT_THAT(why_not("LinearAttention", {keys, keys, keys}, delta),
              HasSubstr("update_rule delta has no decay and needs beta"));
  Attrs gated = delta;
  gated.set("update_rule", std::string("gated"));
  const Given decay({1, 2, 1}, {0, std::log(0.5)});
  EXPECT_THAT(output_of("LinearAttention",
                        {keys, keys, Given({1, 2, 1}, {4, 8}), Given::absent(), decay}, gated),
              near_to({4, 10}));
}

TEST(CausalConv, LooksBackIntoTheState) {
  const Given x({1, 1, 3}, {1, 2, 3}), w({1, 1, 3}, {1, 10, 100});
  const auto alone = outputs_of("CausalConvWithState", {x, w}, {}, 2);
  EXPECT_THAT(alone[0], ElementsAre(100, 210, 321));
  EXPECT_THAT(alone[1], ElementsAre(2, 3));
  const auto behind =
      outputs_of("CausalConvWithState", {x, w, Given::absent(), Given({1, 1, 2}, {4, 5})}, {}, 2);
  EXPECT_THAT(behind[0], ElementsAre(154, 215, 321));
  EXPECT_THAT(why_not("CausalConvWithState", {x, Given({2, 1, 3}, Doubles(6, 0.0))}),
              HasSubstr("must be [N, C, L] and [C, 1, k]"));
}

TEST(Compress, KeepsWhatItsConditionNames) {
  const Given x({3, 2}, {1, 2, 3, 4, 5, 6});
  const Given rows = Given::constant(DType::kBool, {0, 1, 1});
  EXPECT_THAT(output_of("Compress", {x, rows}, {{"axis", int64_t{0}}}), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(output_of("Compress", {x, rows}), ElementsAre(2, 3));
  EXPECT_THAT(why_not("Compress", {x, rows}, {{"axis", int64_t{1}}}),
              HasSubstr("the condition is bool[3], must be bool[2] at most"));
  EXPECT_THAT(why_not("Compress", {x, Given(DType::kBool, {3}, {0, 1, 1})}),
              HasSubstr("must be known in advance"));
}

TEST(Bits, AreThoseOfTwosComplement) {
  const Given a(DType::kI8, {3}, {12, -1, -128}), b(DType::kI8, {3}, {10, 7, 1});
  EXPECT_THAT(output_of("BitwiseAnd", {a, b}), ElementsAre(8, 7, 0));
  EXPECT_THAT(output_of("BitwiseOr", {a, b}), ElementsAre(14, -1, -127));
  EXPECT_THAT(output_of("BitwiseXor", {a, b}), ElementsAre(6, -8, -127));
  EXPECT_THAT(output_of("BitwiseNot", {a}), ElementsAre(-13, 0, 127));
  EXPECT_THAT(output_of("BitwiseNot", {Given(DType::kU8, {1}, {1})}), ElementsAre(254));
  const Given by(DType::kI8, {3}, {4, 8, -1});
  EXPECT_THAT(output_of("BitShift", {a, by}, {{"direction", "LEFT"}}), ElementsAre(-64, 0, 0));
  EXPECT_THAT(output_of("BitShift", {a, by}, {{"direction", "RIGHT"}}), ElementsAre(0, -1, -1));
  EXPECT_THAT(why_not("BitShift", {a, by}, {{"direction", "UP"}}),
              HasSubstr("direction is 'UP', must be LEFT or RIGHT"));
  EXPECT_THAT(why_not("BitwiseNot", {Given({1}, {1})}), HasSubstr("an integer dtype"));
  const auto to = [](DType t) { return Attrs{{"to", static_cast<int64_t>(t)}}; };
  EXPECT_THAT(output_of("BitCast", {Given({2}, {1, -2})}, to(DType::kI32)),
              ElementsAre(0x3f800000, -0x40000000));
  EXPECT_THAT(why_not("BitCast", {Given({2}, {1, -2})}, to(DType::kI64)),
              HasSubstr("f32[2] has other bits than i64"));
}

TEST(Mod, TakesTheSignOfTheDivisorOrOfTheDividend) {
  const Given a({4}, {-4.3, 7.2, 5, -3}),
      b({4}, {2.1, -3.4, 8, std::numeric_limits<double>::infinity()});
  EXPECT_THAT(output_of("Mod", {a, b}), ElementsAre(DoubleNear(2, 1e-9), DoubleNear(-3, 1e-9), 5,
                                                    std::numeric_limits<double>::infinity()));
  EXPECT_THAT(output_of("Mod", {a, b}, {{"fmod", int64_t{1}}}), near_to({-0.1, 0.4, 5, -3}));
  const Given zero(DType::kI32, {1}, {0});
  EXPECT_THAT(output_of("Mod", {Given(DType::kI32, {1}, {7}), zero}), ElementsAre(0));
}

}  // namespace
}  // namespace ndtrain
