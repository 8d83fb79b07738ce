#include "tuner/job_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/status.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

JobSpec parsed(const std::string& more, const std::string& model = std::string(64, 'a')) {
  return parse_job_spec("{\"model\":\"" + model + "\"" + more + "}");
}

std::string refusal(const std::string& more, const std::string& model = std::string(64, 'a')) {
  try {
    (void)parsed(more, model);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(JobSpecPrecision, IsKeptAndSaidOnlyWhereItIsAskedFor) {
  const JobSpec s = parsed(R"(,"precision":"int8","max_drop":1.5)");
  EXPECT_EQ(s.precision, "int8");
  EXPECT_EQ(parse_job_spec(s.text()).max_drop, 1.5);
  EXPECT_EQ(parse_job_spec(s.text()).precision, "int8");
  EXPECT_EQ(parsed("").precision, "");
  EXPECT_THAT(parsed("").text(), Not(HasSubstr("max_drop")));
}

TEST(JobSpecPrecision, IsRefusedWhereNothingCanComeOfIt) {
  EXPECT_THAT(refusal(R"(,"precision":"f8")"), HasSubstr("f32, bf16, f16, int8 and auto"));
  EXPECT_THAT(refusal(R"(,"precision":"bf16","max_drop":-1)"), HasSubstr("max_drop -1"));
  EXPECT_THAT(refusal(R"(,"precision":"bf16","mode":"ideal","photos":"x")"), HasSubstr("ideal"));
  EXPECT_THAT(refusal(R"(,"kind":"relabel","precision":"bf16")", ""), HasSubstr("give a model"));
  EXPECT_EQ(refusal(R"(,"kind":"relabel","precision":"auto")"), "");
}

}  // namespace
}  // namespace ndtrain
