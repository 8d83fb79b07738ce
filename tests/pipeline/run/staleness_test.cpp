#include "framework/pipeline/run/staleness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

TEST(Staleness, IsAskedForByName) {
  EXPECT_EQ(parse_staleness(""), Staleness{});
  EXPECT_EQ(parse_staleness("predict"), Staleness{.predict = true});
  EXPECT_EQ(parse_staleness("delay-compensation:0.04,lr-scale:500,predict"),
            (Staleness{.lr_scale_steps = 500, .predict = true, .compensation = 0.04}));
  for (const char* wrong :
       {"forecast", "predict:2", "predictions", "lr-scale", "lr-scale:0", "lr-scale:-3",
        "lr-scale:1.5", "lr-scale:5x", "delay-compensation:", "delay-compensation:nan",
        "delay-compensation:inf", "predict,,predict"}) {
    EXPECT_NE(error_of([&] { parse_staleness(wrong); }), "no error") << wrong;
  }
  EXPECT_EQ(error_of([&] { parse_staleness("predict,sooner"); }),
            "staleness: 'sooner'; there are lr-scale:STEPS, predict and delay-compensation:LAMBDA");
}

TEST(Staleness, ScalesTheLearningRateAsPipeMareDoes) {
  const Staleness s{.lr_scale_steps = 8};
  EXPECT_DOUBLE_EQ(s.lr_factor(4, 0), 1.0 / 4);
  EXPECT_DOUBLE_EQ(s.lr_factor(4, 4), 1.0 / 2);
  EXPECT_DOUBLE_EQ(s.lr_factor(4, 8), 1);
  EXPECT_DOUBLE_EQ(s.lr_factor(4, 800), 1);
  EXPECT_DOUBLE_EQ(s.lr_factor(1, 0), 1);
  EXPECT_DOUBLE_EQ(s.lr_factor(0, 0), 1);
  EXPECT_DOUBLE_EQ(Staleness{}.lr_factor(4, 0), 1);
}

TEST(Staleness, PredictsByMomentumThatIsAStep) {
  using Kind = OptimizerConfig::Kind;
  const Staleness s{.predict = true};
  EXPECT_THAT(error_of([&] {
                s.check({.kind = Kind::kSgd, .lr_of = {{"fc.*", 2}}});
              }),
              HasSubstr("and that of 'fc.*' is another"));
  EXPECT_THAT(error_of([&] { s.check({.kind = Kind::kSgd, .layer_decay = 0.5}); }),
              HasSubstr("one rate for all layers"));
  EXPECT_EQ(error_of([&] { s.check({.kind = Kind::kSgd}); }), "no error");
  EXPECT_EQ(error_of([&] { s.check({.kind = Kind::kRmsProp}); }), "no error");
  EXPECT_NE(error_of([&] { s.check({.kind = Kind::kSgd, .momentum = 0}); }), "no error");
  EXPECT_NE(error_of([&] { s.check({.kind = Kind::kAdam}); }), "no error");
  EXPECT_NE(error_of([&] { s.check({.kind = Kind::kAdamW}); }), "no error");
}

}  // namespace
}  // namespace ndtrain
