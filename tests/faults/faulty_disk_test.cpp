// Every file operation of these state files goes wrong in every way. What was acknowledged, by an
// account kept beside the file, is there after a restart; what was refused is not; nothing is there
// twice; and each refusal says which file, and why.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "framework/testing/faulty_fs.h"
#include "framework/testing/fsync_throws.h"
#include "framework/testing/memory_fs.h"
#include "ndp/http/access.h"
#include "ndp/http/tokens.h"
#include "tests/faults/state_file_sweep.h"

namespace ndtrain::faults {
namespace {

using ::testing::HasSubstr;

struct Strike {
  int64_t n = 1;
  Fault fault = Fault::kIo;
  bool lasting = false;
  MemoryFs::Survives survives = MemoryFs::Survives::kNothing;
  bool stops = false;  // the process ends after the first refusal
  bool real = false;   // not in memory: nothing is lost with the machine, which goes on
};

class FaultyDisk : public StateFileSweep {
 protected:
  int sweep(Strike each);
  // Whether the fault struck.
  bool strike(const Strike& s) {
    if (s.real) {
      const WorkingDirectory empty;
      return strike(s, real_fs(), [] {});
    }
    MemoryFs disk;
    return strike(s, disk, [&] { disk.crash(s.survives); });
  }
  bool strike(const Strike& strike, Fs& disk, const std::function<void()>& crash) {
    disk.make_directories("state").or_throw();
    Account account;
    {
      FaultyFs fs(disk);
      account = begin(fs);
    }
    bool struck = false;
    {
      FaultyFs fs(disk);
      fs.strike(strike.n, strike.fault, strike.lasting);
      try {
        work(fs, account, !strike.lasting && GetParam().whole, strike.stops);
      } catch (const FsyncFailed& e) {
        expect_reason(e.what);
      } catch (const ProcessEnded&) {
        EXPECT_EQ(strike.fault, Fault::kTornWrite);
      }
      struck = fs.struck();
    }
    crash();
    FaultyFs fs(disk);
    restart(fs, account, is_lie(strike.fault));
    return struck;
  }
};

// Strikes one operation after the other; how many there were.
int FaultyDisk::sweep(Strike each) {
  const std::string how =
      std::string(name_of(each.fault)) + (each.lasting ? " from it on" : "") +
      (each.stops ? ", then the process ends" : "") +
      (each.survives == MemoryFs::Survives::kAll ? ", the machine does not" : "") +
      (each.real ? ", on a real disk" : "");
  for (each.n = 1; each.n < 1000; ++each.n) {
    SCOPED_TRACE("operation " + std::to_string(each.n) + ": " + how);
    if (!strike(each)) return static_cast<int>(each.n) - 1;
  }
  ADD_FAILURE() << "no end of operations";
  return 0;
}

TEST_P(FaultyDisk, LosesNothingThatWasAcknowledged) {
  int pairs = 0;
  for (const Fault fault : kFaults) {
    for (const bool lasting : {false, true}) {
      if (lasting && (is_lie(fault) || fault == Fault::kTornWrite)) continue;
      int operations = 0;
      for (const auto survives : {MemoryFs::Survives::kNothing, MemoryFs::Survives::kAll}) {
        for (const bool stops : {false, true}) {
          operations = std::max(
              operations,
              sweep({.fault = fault, .lasting = lasting, .survives = survives, .stops = stops}));
        }
      }
      pairs += operations;
    }
  }
  std::printf("%s: %d pairs of an operation and a fault, each four times\n", GetParam().name,
              pairs);
  EXPECT_GT(pairs, 50);
}

TEST_P(FaultyDisk, LosesNothingOnARealDisk) {
  int pairs = 0;
  for (const Fault fault : kFaults) pairs += sweep({.fault = fault, .real = true});
  std::printf("%s: %d pairs of an operation and a fault on a real disk\n", GetParam().name, pairs);
  EXPECT_GT(pairs, 25);
}

TEST_P(FaultyDisk, RefusesWhileItIsFullAndGoesOnByItselfWhenThereIsRoom) {
  MemoryFs disk;
  disk.make_directories("state").or_throw();
  Account account;
  {
    FaultyFs fs(disk);
    const auto file = GetParam().open(fs, clock_);
    file->add({"a"}).or_throw();
    account.acknowledged("a", true);
    fs.strike(1, Fault::kNoSpace, true);
    for (int tries = 0; tries < 3; ++tries) {
      refused_ = false;
      change(account, {"b"}, true, true, [&] { return file->add({"b"}); });
      EXPECT_TRUE(refused_);
    }
    fs.heal();
    file->add({"c"}).or_throw();
    account.acknowledged("c", true);
  }
  disk.crash();
  FaultyFs fs(disk);
  EXPECT_EQ(account.objection(GetParam().open(fs, clock_)->names()), "");
}

TEST(FaultyDiskTokens, OfWhichNobodyCanTellWhetherThereAreLetNobodyIn) {
  MemoryFs disk;
  disk.make_directories("state").or_throw();
  const ManualClock clock;
  EXPECT_FALSE(ndp::Access(disk, clock, {.directory = "state"}).on()) << "there are none";
  auto tokens = ndp::TokensFile::open(disk, "state").or_throw();
  static_cast<void>(tokens.add({.name = "ann"}).or_throw());
  FaultyFs fs(disk);
  fs.strike(1, Fault::kIo, true);
  try {
    const ndp::Access access(fs, clock, {.directory = "state"});
    FAIL() << "anybody may come in";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("state/tokens.json: cannot be read"));
    EXPECT_THAT(e.what(), HasSubstr("Input/output error"));
  }
  fs.heal();
  EXPECT_TRUE(ndp::Access(fs, clock, {.directory = "state"}).on());
}

INSTANTIATE_TEST_SUITE_P(Of, FaultyDisk, ::testing::ValuesIn(state_file_kinds()), kind_name);
INSTANTIATE_TEST_SUITE_P(OfJobs, FaultyDisk, ::testing::ValuesIn(job_state_file_kinds()),
                         kind_name);

}  // namespace
}  // namespace ndtrain::faults
