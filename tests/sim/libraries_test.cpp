// Several tasks and collections under faults. NDT_SIM_SEEDS as in simulator_test.cpp;
// NDT_SIM_DIGESTS=1 prints what each seed came to. bench/seeds runs very many.
#include "tests/sim/libraries.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>

#include <filesystem>

#include "framework/core/hash.h"
#include "framework/core/log.h"
#include "tests/support/seeds.h"

namespace ndtrain {
namespace {

using sim::Bug;
using sim::Libraries;

constexpr int kFaults = 10;

// Each commit of a label database waits for its disk: one in memory, where there is one.
void keep_databases_in_memory() {
  constexpr const char* kMemory = "/dev/shm";
  if (std::filesystem::is_directory(kMemory)) ::setenv("TEST_TMPDIR", kMemory, 0);
}

std::string story_of(const Libraries& l) {
  std::string text;
  for (const std::string& line : l.story()) text += line + "\n";
  for (const std::string& v : l.violations()) text += "VIOLATION " + v + "\n";
  return text;
}

TEST(Libraries, HaveTheLabelsOfTheirTasksWhateverGoesWrong) {
  log::set_level(log::Level::kOff);
  keep_databases_in_memory();
  const auto [first, count] = testing::seeds_or(60);
  size_t jobs = 0, versions = 0, uploads = 0, watched = 0;
  uint64_t digest = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Libraries libraries(seed, kFaults);
    libraries.run();
    if (count == 1) fmt::print("{}", story_of(libraries));
    ASSERT_TRUE(libraries.violations().empty()) << story_of(libraries) << "NDT_SIM_SEEDS=" << seed
                                                << " sim_test --gtest_filter=Libraries.Have*";
    jobs += libraries.jobs();
    versions += libraries.versions();
    uploads += libraries.uploads();
    watched += libraries.watched();
    digest = xxh3(&digest, sizeof digest, libraries.digest());
    if (::getenv("NDT_SIM_DIGESTS")) {
      fmt::print("digest {} {:016x}\n", seed, libraries.digest());
      ::fflush(stdout);
    }
  }
  fmt::print("{} seeds: {} jobs, {} of them by rules, {} versions, {} uploads, digest {:016x}\n",
             count, jobs, watched, versions, uploads, digest);
  if (count < 50) return;
  EXPECT_GT(jobs, 8 * count);
  EXPECT_GT(versions, 2 * count);
  EXPECT_GT(uploads, 5 * count);
  EXPECT_GT(watched, 0U);
}

// Seeds that found something. 6029: a photo was deleted of a job that was done, while the disk,
// full when it ended, had it as running. 59768: a store kept what it was told of the trash after
// its next Hello, when the trash was empty again.
TEST(Libraries, HaveThemWithSeedsThatFoundABug) {
  log::set_level(log::Level::kOff);
  keep_databases_in_memory();
  for (const uint64_t seed : {6029U, 59768U}) {
    Libraries libraries(seed, kFaults);
    libraries.run();
    EXPECT_TRUE(libraries.violations().empty()) << story_of(libraries);
  }
}

// What one collection with one task does not show.
class BugOfLibraries : public ::testing::TestWithParam<std::pair<const char*, Bug>> {};

TEST_P(BugOfLibraries, IsFound) {
  log::set_level(log::Level::kOff);
  keep_databases_in_memory();
  constexpr uint64_t kSeeds = 100;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Libraries libraries(seed, kFaults, GetParam().second);
    libraries.run();
    if (libraries.violations().empty()) continue;
    fmt::print("seed {}: {}\n", seed, libraries.violations().front());
    return;
  }
  FAIL() << "not found in " << kSeeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(
    Libraries, BugOfLibraries,
    ::testing::Values(std::pair("PublishedToDefaultTask", Bug::kPublishedToDefaultTask),
                      std::pair("OneTaskAnswersForAll", Bug::kOneTaskAnswersForAll),
                      std::pair("TaskUnsaid", Bug::kTaskUnsaid),
                      std::pair("RelabelsByDefaultTask", Bug::kRelabelsByDefaultTask),
                      std::pair("CollectionUnsaid", Bug::kCollectionUnsaid)),
    [](const auto& test) { return test.param.first; });

}  // namespace
}  // namespace ndtrain
