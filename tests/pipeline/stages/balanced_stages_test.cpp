#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "framework/core/rng.h"
#include "framework/pipeline/stages/stage.h"

namespace ndtrain {
namespace {

double heaviest(const std::vector<double>& cost, const std::vector<int>& stage_of) {
  std::map<int, double> of_stage;
  for (size_t i = 0; i < cost.size(); ++i) of_stage[stage_of[i]] += cost[i];
  double most = 0;
  for (const auto& [stage, c] : of_stage) most = std::max(most, c);
  return most;
}

double best_of_all_cuts(const std::vector<double>& cost, int stages) {
  double best = 1e300;
  std::vector<int> stage_of(cost.size());
  const std::function<void(size_t, int)> go_on = [&](size_t i, int stage) {
    if (i == cost.size()) {
      if (stage == stages - 1) best = std::min(best, heaviest(cost, stage_of));
      return;
    }
    for (const int s : {stage, stage + 1}) {
      if (i == 0 && s != 0) continue;
      stage_of[i] = s;
      go_on(i + 1, s);
    }
  };
  go_on(0, 0);
  return best;
}

TEST(BalancedStages, NoCutHasALighterHeaviestStage) {
  Rng rng(1, "balanced stages");
  for (int round = 0; round < 200; ++round) {
    std::vector<double> cost(2 + rng.next_below(9));
    for (double& c : cost) c = static_cast<double>(rng.next_below(4)) / 2;
    const int stages = 1 + static_cast<int>(rng.next_below(std::min<uint64_t>(cost.size(), 5)));
    const std::vector<int> stage_of = balanced_stages(cost, stages);
    ASSERT_TRUE(std::ranges::is_sorted(stage_of));
    ASSERT_EQ(stage_of.front(), 0);
    ASSERT_EQ(stage_of.back(), stages - 1);
    for (size_t i = 1; i < stage_of.size(); ++i) ASSERT_LE(stage_of[i] - stage_of[i - 1], 1);
    ASSERT_EQ(heaviest(cost, stage_of), best_of_all_cuts(cost, stages));
  }
}

TEST(BalancedStages, MoreStagesThanNodesAreRefused) {
  const std::vector<double> cost(3, 1.0);
  EXPECT_THROW(balanced_stages(cost, 4), Error);
  EXPECT_THROW(balanced_stages(cost, 0), Error);
}

}  // namespace
}  // namespace ndtrain
