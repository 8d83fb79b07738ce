// An fsync that fails ends a role, wherever it is and whatever its lanes do; it comes back to what
// is durable, nothing that was answered is lost, and the job's bytes are those of an undisturbed
// one.
#include <gmock/gmock.h>

#include <cstdio>
#include <filesystem>
#include <set>

#include "framework/core/fs.h"
#include "framework/core/log.h"
#include "tests/sim/redistribution.h"
#include "tests/sim/simulation.h"
#include "tests/sim/watched_labels.h"
#include "tests/support/paths.h"

namespace ndtrain {
using namespace ndp;

namespace {

using Names = std::set<std::string>;
using ::testing::IsEmpty;

// Who has slow work done on a lane: what syncs the disk in a simulation, and what does not.
const Names kSync = {"DeletionFollower::take",
                     "JobRunner::finished",
                     "JobRunner::start",
                     "ModelDeployment::withdraw",
                     "ModelDistribution::answer_asks",
                     "ModelFetch::apply_step",
                     "PhotoDeletions::pump",
                     "PhotoHolders::write_next",
                     "PhotoTrash::keep_labels",
                     "TrashFollower::take",
                     "UploadIngest::judge",
                     "UploadIngest::keep",
                     "Watcher::start"};
const Names kRead = {"ModelDeployment::check", "RowJobs::list",     "RowJobs::make",
                     "RowJobs::open",          "TaskRemoval::pump", "UploadIngest::pump"};

// No simulation has a damaged photo (photo_exchange_test.cpp), photos that look like anything
// (photo_row_producer_test.cpp), or more jobs than are kept (job_history_test.cpp).
const Names kElsewhere = {"JobHistory::pump", "PhotoExchange::give", "PhotoExchange::put_back",
                          "RowJobs::hash_more"};

// Whoever starts a task at another place names it above.
TEST(FsyncThatFails, IsTriedInEveryTaskOfALane) {
  size_t places = 0;
  for (const char* folder : {"ndp", "tuner"}) {
    const std::string root = join(support::source_path(), folder);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.path().extension() != ".cpp") continue;
      const std::string text = real_fs().read(entry.path().string()).or_throw();
      constexpr std::string_view kStart = "lanes.start(";
      for (size_t at = text.find(kStart); at != text.npos; at = text.find(kStart, at + 1)) ++places;
    }
  }
  EXPECT_EQ(places, kSync.size() + kRead.size() + kElsewhere.size());
}

// What became of one machine, of which an fsync failed or none.
struct Outcome {
  sim::LaneSyncs lanes;
  int64_t deaths = 0;
};

// A fine-tuning and a relabelling.
Outcome work(size_t machine, int64_t fail) {
  static std::string weights;  // of the undisturbed job, which is the first
  sim::Simulation simulation(0, 0);
  sim::Machine& m = simulation.machine(machine);
  if (fail > 0) m.disk().fail_sync(fail);
  const sim::Ending ending = simulation.run();
  EXPECT_THAT(ending.violations, IsEmpty());
  EXPECT_TRUE(ending.done && ending.labelled);
  if (weights.empty()) weights = ending.weights;
  EXPECT_EQ(ending.weights, weights);
  return {m.lane_syncs(), m.fsync_deaths()};
}

// Versions that come to the stores by deltas.
Outcome distribute(size_t machine, int64_t fail) {
  sim::Redistribution versions(7);
  sim::Machine& m = versions.machine(machine);
  if (fail > 0) m.disk().fail_sync(fail);
  versions.run(3, 0);
  EXPECT_THAT(versions.violations(), IsEmpty());
  return {m.lane_syncs(), m.fsync_deaths()};
}

// A fine-tuning that the Tuner submits by itself.
Outcome watch(size_t, int64_t fail) {
  sim::WatchedLabels labels;
  sim::Machine& m = labels.tuner();
  if (fail > 0) m.disk().fail_sync(fail);
  labels.run();
  EXPECT_THAT(labels.violations(), IsEmpty());
  return {m.lane_syncs(), m.fsync_deaths()};
}

// A task goes, with what is known in it.
Outcome take_away(size_t machine, int64_t fail) {
  sim::Redistribution versions(7);
  sim::Machine& m = versions.machine(machine);
  if (fail > 0) m.disk().fail_sync(fail);
  versions.run_with_task_taken_away();
  EXPECT_THAT(versions.violations(), IsEmpty());
  return {m.lane_syncs(), m.fsync_deaths()};
}

struct Scenario {
  Outcome (*run)(size_t machine, int64_t fail);
  size_t machines;  // of which an fsync fails: the Tuner, and a store
};
constexpr Scenario kScenarios[] = {{work, 2}, {distribute, 2}, {watch, 1}, {take_away, 2}};

TEST(FsyncThatFails, EndsARoleInWhateverItDoesAndChangesNothing) {
  log::set_level(log::Level::kOff);
  Names ran, synced, failed;
  int64_t deaths = 0;
  for (const Scenario& scenario : kScenarios) {
    for (size_t machine = 0; machine < scenario.machines; ++machine) {
      const Outcome calm = scenario.run(machine, 0);
      EXPECT_EQ(calm.deaths, 0);
      ran.insert(calm.lanes.ran.begin(), calm.lanes.ran.end());
      synced.insert(calm.lanes.synced.begin(), calm.lanes.synced.end());
      for (int64_t n = 1;; ++n) {
        const Outcome outcome = scenario.run(machine, n);
        ASSERT_FALSE(HasFailure()) << "machine " << machine << ", fsync " << n;
        if (outcome.deaths == 0) break;  // there are no more
        EXPECT_EQ(outcome.deaths, 1);
        failed.insert(outcome.lanes.failed.begin(), outcome.lanes.failed.end());
        ++deaths;
      }
    }
  }
  std::printf("%d deaths of an fsync that failed\n", static_cast<int>(deaths));
  EXPECT_EQ(failed, synced) << "each task that syncs has died of it";
  EXPECT_EQ(synced, kSync);
  Names all = kSync;
  all.insert(kRead.begin(), kRead.end());
  EXPECT_EQ(ran, all);
}

}  // namespace
}  // namespace ndtrain
