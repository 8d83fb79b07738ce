// The agreement in simulated time: whatever is lost whenever, ranks end with the values of an
// undisturbed run, or say why they end; and what a wrong program would do is found.
#include <gtest/gtest.h>

#include <string>

#include "tests/comm/simulated_ranks.h"
#include "tests/support/seeds.h"

namespace ndtrain::comm_tests {
namespace {

// NDT_SIM_SEEDS=FIRST:COUNT runs others than the usual ones.
TEST(RegroupingSimulation, EverySeedEndsAsItShould) {
  const auto [first, count] = testing::seeds_or(400);
  uint64_t regrouped = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SimulatedRanks ranks(seed, RegroupBug::kNone);
    EXPECT_EQ(ranks.run(), "") << "NDT_SIM_SEEDS=" << seed;
    regrouped += static_cast<uint64_t>(ranks.regrouped());
  }
  if (count > 100) {
    EXPECT_GT(regrouped, count);
  }
}

class PlantedRegroupBug : public ::testing::TestWithParam<RegroupBug> {};

TEST_P(PlantedRegroupBug, IsCaught) {
  std::string wrong;
  for (uint64_t seed = 0; seed < 400 && wrong.empty(); ++seed) {
    wrong = SimulatedRanks(seed, GetParam()).run();
  }
  EXPECT_NE(wrong, "");
}

INSTANTIATE_TEST_SUITE_P(
    , PlantedRegroupBug,
    ::testing::Values(RegroupBug::kReportsWhatIsHalfApplied, RegroupBug::kTakesNothingBack,
                      RegroupBug::kKeepsOneValueOnly, RegroupBug::kLeavesShardsOfTheLost,
                      RegroupBug::kDropsLaterGenerations, RegroupBug::kCallsNobody,
                      RegroupBug::kGoesOnWhenGivenUp, RegroupBug::kMissesNobody));

}  // namespace
}  // namespace ndtrain::comm_tests
