// The simulator finds bugs: each of these, planted at a seam of the roles, within 2,000 seeds.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "framework/core/log.h"
#include "tests/sim/simulation.h"

namespace ndtrain {
namespace {

using sim::Bug;

class PlantedBug : public ::testing::TestWithParam<std::pair<const char*, Bug>> {};

TEST_P(PlantedBug, IsFound) {
  log::set_level(log::Level::kOff);
  constexpr uint64_t kSeeds = 2000;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const sim::Ending ending = sim::simulate(seed, GetParam().second);
    if (ending.violations.empty()) continue;
    fmt::print("seed {}: {}\n", seed, ending.violations.front());
    return;
  }
  FAIL() << "not found in " << kSeeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(
    Simulator, PlantedBug,
    ::testing::Values(std::pair("AckBeforeDurable", Bug::kAckBeforeDurable),
                      std::pair("NoFileSync", Bug::kNoFileSync),
                      std::pair("NoDirectorySync", Bug::kNoDirectorySync),
                      std::pair("StaleTermAccepted", Bug::kStaleTermAccepted),
                      std::pair("RepeatsKept", Bug::kRepeatsKept),
                      std::pair("FullDiskIgnored", Bug::kFullDiskIgnored),
                      std::pair("NeighboursShifted", Bug::kNeighboursShifted),
                      std::pair("ChecksumIgnored", Bug::kChecksumIgnored),
                      std::pair("ReceivedIsDurable", Bug::kReceivedIsDurable),
                      std::pair("MessageLost", Bug::kMessageLost),
                      std::pair("TermForgotten", Bug::kTermForgotten),
                      std::pair("SplitByLife", Bug::kSplitByLife),
                      std::pair("AnswersUnmarked", Bug::kAnswersUnmarked),
                      std::pair("DeadlinesByWallClock", Bug::kDeadlinesByWallClock),
                      std::pair("KnownTunerForgotten", Bug::kKnownTunerForgotten),
                      std::pair("StartUnsaid", Bug::kStartUnsaid),
                      std::pair("VersionByLife", Bug::kVersionByLife)),
    [](const auto& test) { return test.param.first; });

}  // namespace
}  // namespace ndtrain
