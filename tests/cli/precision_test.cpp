// --precision, --max-drop and `model quantize` as a user meets them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program_fixture.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_cli::Outcome;

class PrecisionFlags : public testing_cli::ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    draw_photos(40);
    ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  }
  Outcome predict(const std::string& precision, const std::string& max_drop) const {
    return run({"predict", "m.onnx", "photos", "--precision", precision, "--max-drop", max_drop});
  }
};

TEST_F(PrecisionFlags, AVerbComparesThePrecisionWithF32AndGoesOn) {
  for (const std::string precision : {"bf16", "int8"}) {
    const Outcome o = predict(precision, "100");
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_THAT(o.err,
                AllOf(HasSubstr(precision + ": 40 photos against f32"), HasSubstr("allowed: 100")));
  }
  const Outcome f32 = predict("f32", "0");
  EXPECT_EQ(f32.code, 0);
  EXPECT_THAT(f32.err, ::testing::Not(HasSubstr("against f32")));
}

TEST_F(PrecisionFlags, WhatNoPrecisionIsCalledIsAMistakeInUse) {
  EXPECT_EQ(predict("f8", "1").code, 2);
  EXPECT_THAT(predict("f8", "1").err, HasSubstr("f32, bf16, f16, int8 and auto"));
  EXPECT_EQ(predict("bf16", "-1").code, 2);
  EXPECT_EQ(predict("bf16", "little").code, 2);
}

TEST_F(PrecisionFlags, AQuantisedModelIsAFileOfItsOwnThatIsVerifiedAgainstTheFirst) {
  Outcome o = run({"model", "quantize", "m.onnx", "--data", "photos", "-o", "q.onnx", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(nlohmann::json::parse(o.out).at("precision"), "int8");
  EXPECT_THAT(o.err, HasSubstr("convolutions compute on bytes"));
  const std::vector<std::string> verify = {"model", "verify", "q.onnx", "--precision",
                                           "int8",  "--data", "photos", "--max-drop",
                                           "100",   "--json"};
  EXPECT_EQ(run(verify).code, 1) << "with what is it to be compared?";
  std::vector<std::string> against = verify;
  against.insert(against.end(), {"--against", "m.onnx"});
  o = run(against);
  ASSERT_EQ(o.code, 0) << o.err;
  const nlohmann::json said = nlohmann::json::parse(o.out);
  EXPECT_EQ(said.at("photos"), 40);
  EXPECT_EQ(said.at("verdict"), "accepted");
  EXPECT_GT(said.at("cosine"), 0.9);

  o = run({"predict", "q.onnx", "photos", "--precision", "bf16"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("quantised from"));
  EXPECT_EQ(run({"model", "quantize", "m.onnx", "-o", "q.onnx"}).code, 2) << "scales of what?";
  o = run({"model", "quantize", "m.onnx", "--precision", "bf16", "-o", "b.onnx", "--json"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(nlohmann::json::parse(o.out).at("precision"), "bf16");
}

TEST_F(PrecisionFlags, AJobInAPrecisionNeedsAModel) {
  const Outcome o = run({"job", "submit", "relabel", "--precision", "int8"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("give a model"));
}

}  // namespace
}  // namespace ndtrain
