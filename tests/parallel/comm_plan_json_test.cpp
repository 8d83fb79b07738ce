#include "framework/parallel/comm_plan_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/parallel/schedules/schedules.h"
#include "tests/parallel/random_costs.h"

namespace ndtrain {
namespace {

TEST(CommPlanJson, GivesEveryPlanBack) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const CostProfile costs = testing::random_costs(seed, 12);
    for (const NamedSchedule& s : schedules()) {
      const CommPlan plan = make_comm_plan(s.name, costs, {.evaluations = 100});
      EXPECT_EQ(parse_comm_plan(to_json(plan)) == plan, true) << s.name << ": " << to_json(plan);
    }
  }
}

TEST(CommPlanJson, RefusesWhatIsNoPlan) {
  const auto refused = [](const std::string& text) -> std::string {
    try {
      (void)parse_comm_plan(text);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  const auto with_op = [&](const std::string& op) {
    return refused(R"({"buckets": [0, 16], "ops": [")" + op +
                   R"("], "shard_optimizer": false, "update_late": true, "prefetch": 0})");
  };
  EXPECT_EQ(with_op("AR0"), "no error");
  EXPECT_THAT(with_op("X0"), ::testing::HasSubstr("'X0' is no operation"));
  EXPECT_THAT(with_op("AR"), ::testing::HasSubstr("'AR' is no operation"));
  EXPECT_THAT(with_op("AR1x"), ::testing::HasSubstr("'AR1x' is no operation"));
  EXPECT_THAT(refused("{"), ::testing::HasSubstr("no JSON"));
  EXPECT_THAT(refused("{}"), ::testing::HasSubstr("shard_optimizer"));
  EXPECT_THAT(refused(R"({"buckets": [0], "ops": [], "shard_optimizer": false,
                          "update_late": true, "prefetch": 0})"),
              ::testing::HasSubstr("without an end"));
}

}  // namespace
}  // namespace ndtrain
