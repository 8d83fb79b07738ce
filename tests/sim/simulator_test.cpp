// The whole system under faults. NDT_SIM_SEEDS=FIRST:COUNT runs other seeds than the
// usual ones, NDT_SIM_SEEDS=SEED one, with its story.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "framework/core/log.h"
#include "tests/sim/simulation.h"
#include "tests/support/seeds.h"

namespace ndtrain {
namespace {

std::string reproduce(uint64_t seed) {
  return fmt::format("NDT_SIM_SEEDS={} sim_test --gtest_filter=Simulator.Faults*", seed);
}

TEST(Simulator, FaultsThatHealChangeNothing) {
  log::set_level(log::Level::kOff);
  const testing::Seeds all = testing::seeds_or(300);
  sim::Coverage coverage;
  uint64_t same = 0, same_after_loss = 0, without = 0, failed = 0, repeats = 0, labelled = 0;
  for (uint64_t seed = all.first; seed < all.first + all.count; ++seed) {
    const sim::Ending ending = sim::simulate(seed);
    coverage.add(ending.coverage);
    (!ending.done ? failed : ending.whole ? same : without) += 1;
    same_after_loss += ending.whole && ending.lost_store;
    repeats += ending.repeats;
    labelled += ending.labelled;
    std::string text;
    if (!ending.violations.empty() || all.count == 1) {
      for (const std::string& line : ending.story) text += line + "\n";
    }
    for (const std::string& v : ending.violations) text += "VIOLATION " + v + "\n";
    if (all.count == 1) fmt::print("{}", text);
    ASSERT_TRUE(ending.violations.empty()) << text << reproduce(seed);
  }
  fmt::print(
      "{} seeds: {} jobs with the undisturbed job's bytes, {} of them although a store was "
      "lost for good;\n",
      all.count, same, same_after_loss);
  fmt::print(
      "{} failed or wait because of photos of a lost store, {} were allowed to go on without "
      "them;\n",
      failed, without);
  fmt::print(
      "then {} relabellings, of the others a lost store has what they wait for\n"
      "0 photos lost or doubled; {} rows came twice\nfaults by what the job was doing:\n{}",
      labelled, repeats, coverage.text());
}

}  // namespace
}  // namespace ndtrain
