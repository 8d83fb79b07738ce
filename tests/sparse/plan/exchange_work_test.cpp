#include "framework/sparse/plan/exchange_work.h"

#include <gmock/gmock.h>

#include "framework/core/error.h"
#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

TEST(ExchangeWork, MeasuredHereItIsSecondsOfAnElement) {
  const ExchangeWork w =
      measure_exchange_work({.kind = OptimizerConfig::Kind::kSgd}, system_clock());
  validate(w);
  for (const double s :
       {w.add_s, w.choose_s, w.sort_s, w.column_s, w.outer_s, w.encode_s, w.decode_s, w.update_s}) {
    EXPECT_GT(s, 0);
    EXPECT_LT(s, 1e-6) << "a microsecond is a thousand times what a slow processor takes";
  }
}

TEST(ExchangeWork, WhatIsNoNumberOfSecondsIsRefused) {
  EXPECT_EQ(testing::error_of([] { validate(ExchangeWork{.decode_s = -1}); }),
            "exchange work: decode_s is -1");
  EXPECT_THAT(testing::error_of([] { validate(ExchangeWork{.add_s = 1e308 * 10}); }),
              ::testing::HasSubstr("add_s is inf"));
}

}  // namespace
}  // namespace ndtrain
