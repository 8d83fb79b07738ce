#include "framework/sparse/plan/steps_factor.h"

#include <gmock/gmock.h>

#include "tests/sparse/control/known_profiles.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

double assumed(const char* word) {
  return assumed_steps_factor(parse_exchange_method(word)).factor;
}

TEST(StepsFactor, ExactGradientsNeedNoMoreStepsThanTheyDo) {
  for (const char* word : {"ddp", "blocking", "auto", "dear"}) EXPECT_EQ(assumed(word), 1) << word;
  EXPECT_EQ(assumed_steps_factor(parse_exchange_method("ddp")).source, "exact");
}

TEST(StepsFactor, TheLessTravelsTheMoreStepsAreAssumed) {
  const std::vector<const char*> rising[] = {
      {"ddp", "sparse:0:0.9", "sparse:0:0.99", "sparse:0:0.999"},
      {"sparse:0:0.99", "sparse:1:0.99", "sparse:2:0.99"},
      {"ddp", "sparse:0:0.99:topk", "sparse:0:0.99"},
      {"ddp", "powersgd:4", "powersgd:1"},
      {"ddp", "local:10", "local:50", "local:500"},
      {"ddp", "diloco:10", "diloco:50", "diloco:500"}};
  for (const auto& words : rising) {
    for (size_t i = 1; i < words.size(); ++i) {
      EXPECT_LT(assumed(words[i - 1]), assumed(words[i])) << words[i];
    }
  }
  EXPECT_EQ(assumed("sparse:0:0"), 1) << "whole gradients, in time, are exact";
  EXPECT_EQ(assumed_steps_factor(parse_exchange_method("diloco:50")).source, "assumed");
}

class MeasuredFactor : public ::testing::Test {
 protected:
  double of(const char* word, const LossPenalty& penalty, double rows = 64) const {
    return measured_steps_factor(parse_exchange_method(word), penalty, rows, sizes_, 2).factor;
  }
  const SelectionSizes sizes_ = {.elements = {1'000'000}};
};

TEST_F(MeasuredFactor, IsThePenaltyOfTheDropAsTheControllerWeighsIt) {
  const LossPenalty penalty(known_profile(ConvergenceProfile::Over::kDrop, 64, 256, {}));
  for (const double drop : {0.9, 0.99}) {
    const std::string word = "sparse:0:" + std::to_string(drop);
    EXPECT_EQ(of(word.c_str(), penalty), 1 + 50 * penalty.at(64, drop));
  }
  EXPECT_EQ(of("ddp", penalty), 1 + 50 * penalty.at(64, 0)) << "the batch is theirs, too";
  EXPECT_GT(of("sparse:0:0.99", penalty, 256), of("sparse:0:0.99", penalty, 64));
}

TEST_F(MeasuredFactor, WhatNoProfileKnowsIsAssumedBesides) {
  const LossPenalty penalty(known_profile(ConvergenceProfile::Over::kDrop, 64, 256, {}));
  const double exact = of("ddp", penalty);
  EXPECT_DOUBLE_EQ(of("diloco:50", penalty), exact * assumed("diloco:50"));
  EXPECT_DOUBLE_EQ(of("powersgd:4", penalty), exact * assumed("powersgd:4"));
  EXPECT_DOUBLE_EQ(of("sparse:1:0.99", penalty),
                   of("sparse:0:0.99", penalty) * assumed("sparse:1:0"));
  const StepsFactor f =
      measured_steps_factor(parse_exchange_method("diloco:50"), penalty, 64, sizes_, 2);
  EXPECT_THAT(f.source, ::testing::AllOf(HasSubstr("penalty "), HasSubstr("assumed")));
}

TEST_F(MeasuredFactor, OfBandwidthsADropIsThePartOfTheReferencesBytes) {
  const LossPenalty penalty(known_profile(ConvergenceProfile::Over::kBandwidth, 64, 256, {}));
  const double part = selection_bytes(sizes_, 0.99) / selection_bytes(sizes_, 0.9);
  EXPECT_DOUBLE_EQ(of("sparse:0:0.99", penalty), 1 + 50 * penalty.at(64, part));
  EXPECT_DOUBLE_EQ(of("sparse:0:0.9", penalty), 1 + 50 * penalty.at(64, 1));
}

}  // namespace
}  // namespace ndtrain
