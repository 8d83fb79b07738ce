// The sweep of faulty_disk_test.cpp over databases: SQLite goes to its files by a VFS.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "tests/faults/state_file_sweep.h"
#include "tests/support/faulty_vfs.h"

namespace ndtrain::faults {
namespace {

using support::FaultyVfs;

struct DatabaseStrike {
  int64_t n = 1;
  Fault fault = Fault::kIo;
  bool lasting = false;
  bool stops = false;  // the process ends after the first refusal
};

class FaultyDatabase : public StateFileSweep {
 protected:
  static void SetUpTestSuite() { FaultyVfs::install(); }

  // Whether the fault struck.
  bool strike(const DatabaseStrike& s) {
    std::filesystem::remove_all("state");
    std::filesystem::copy("begun", "state", std::filesystem::copy_options::recursive);
    Account account = begun_;
    FaultyVfs::strike(s.n, s.fault, s.lasting);
    try {
      work(real_fs(), account, false, s.stops);
    } catch (const FsyncFailed& e) {
      expect_reason(e.what);
    }
    const bool struck = FaultyVfs::struck();
    FaultyVfs::heal();
    restart(real_fs(), account, false);
    return struck;
  }

  int sweep(DatabaseStrike each) {
    for (each.n = 1; each.n < 10'000; ++each.n) {
      SCOPED_TRACE("operation " + std::to_string(each.n) + ": " + name_of(each.fault) +
                   (each.lasting ? " from it on" : "") +
                   (each.stops ? ", then the process ends" : ""));
      if (!strike(each)) return static_cast<int>(each.n) - 1;
      if (HasFailure()) break;  // thousands would follow
    }
    return 0;
  }

  const WorkingDirectory empty_;
  Account begun_;
};

TEST_P(FaultyDatabase, LosesNothingThatWasAcknowledged) {
  std::filesystem::create_directory("state");
  begun_ = begin(real_fs());
  std::filesystem::rename("state", "begun");
  int pairs = 0;
  for (const Fault fault : support::kDatabaseFaults) {
    for (const bool lasting : {false, true}) {
      if (lasting && fault == Fault::kTornWrite) continue;
      for (const bool stops : {false, true}) {
        const int operations = sweep({.fault = fault, .lasting = lasting, .stops = stops});
        if (!stops) pairs += operations;
      }
    }
  }
  std::printf("%s: %d pairs of an operation and a fault, each twice\n", GetParam().name, pairs);
  EXPECT_GT(pairs, 100);
}

// The machine ends in each write and each fsync of one process, and what was not synced is lost.
class LostWrites : public FaultyDatabase {
 protected:
  // Whether the fault struck.
  bool lose(int64_t n, Fault fault, FaultyVfs::Survives survives, Rng& rng) {
    std::filesystem::remove_all("state");
    std::filesystem::copy("begun", "state", std::filesystem::copy_options::recursive);
    Account account = begun_;
    FaultyVfs::begin_losses();
    FaultyVfs::strike(n, fault);
    try {
      work(real_fs(), account, false, false);
    } catch (const FsyncFailed& e) {
      expect_reason(e.what);
    }
    const bool struck = FaultyVfs::struck();
    FaultyVfs::lose(survives, rng);
    FaultyVfs::heal();
    restart(real_fs(), account, is_lie(fault));
    return struck;
  }

  void sweep_losses(Fault fault) {
    int64_t most = 0;
    for (const auto survives :
         {FaultyVfs::Survives::kNothing, FaultyVfs::Survives::kSome, FaultyVfs::Survives::kAll}) {
      Rng rng(static_cast<uint64_t>(survives), "losses");
      for (int64_t n = 1; n < 10'000; ++n) {
        SCOPED_TRACE("operation " + std::to_string(n) + ": " + name_of(fault) + ", survives " +
                     std::to_string(static_cast<int>(survives)));
        if (!lose(n, fault, survives, rng) || HasFailure()) {
          most = std::max(most, n - 1);
          break;
        }
      }
    }
    std::printf("%s: %lld operations, each in three ways\n", name_of(fault),
                static_cast<long long>(most));
    EXPECT_GT(most, 5);
  }

  void SetUp() override {
    std::filesystem::create_directory("state");
    begun_ = begin(real_fs());
    std::filesystem::rename("state", "begun");
  }
  void TearDown() override { FaultyVfs::forget_losses(); }
};

TEST_P(LostWrites, WhatWasAcknowledgedIsThereWhereverTheMachineEnds) {
  sweep_losses(Fault::kTornWrite);
  sweep_losses(Fault::kIo);
}

TEST_P(LostWrites, AnFsyncThatIsLostCostsWhatWasSaidThenOrTheFileWhichIsNamed) {
  sweep_losses(Fault::kSyncLost);
}

INSTANTIATE_TEST_SUITE_P(Of, LostWrites, ::testing::Values(database_kinds()[0]), kind_name);

INSTANTIATE_TEST_SUITE_P(Of, FaultyDatabase, ::testing::ValuesIn(database_kinds()), kind_name);

}  // namespace
}  // namespace ndtrain::faults
