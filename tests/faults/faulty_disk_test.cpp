// Every file operation of these state files goes wrong in every way. What was acknowledged, by an
// account kept beside the file, is there after a restart; what was refused is not; nothing is there
// twice; and each refusal says which file, and why.
#include <gmock/gmock.h>

#include <map>
#include <optional>
#include <set>

#include "framework/core/log.h"
#include "framework/testing/faulty_fs.h"
#include "framework/testing/fsync_throws.h"
#include "framework/testing/memory_fs.h"
#include "ndp/http/access.h"
#include "ndp/http/tokens.h"
#include "tests/faults/state_files.h"

namespace ndtrain::faults {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// Per name: whether it may be in the file, and whether it may not.
class Account {
 public:
  void acknowledged(const std::string& name, bool there) { may_[name] = {there}; }
  void unknown(const std::string& name, bool there) {
    may_.try_emplace(name, std::set{false}).first->second.insert(there);
  }
  void nothing_is_certain_of(const std::string& name) { may_[name] = {false, true}; }

  // What is wrong with a file that has these; "": nothing.
  std::string objection(const std::vector<std::string>& names) const {
    std::map<std::string, int> count;
    for (const std::string& name : names) ++count[name];
    std::string all;
    for (const auto& [name, n] : count) {
      if (n > 1) all += name + " is there " + std::to_string(n) + " times; ";
      if (!may_.contains(name) || !may_.at(name).contains(true)) all += name + " came back; ";
    }
    for (const auto& [name, may] : may_) {
      if (!may.contains(false) && !count.contains(name)) all += name + " is lost; ";
    }
    return all;
  }

 private:
  std::map<std::string, std::set<bool>> may_;
};

struct Strike {
  int64_t n = 1;
  Fault fault = Fault::kIo;
  bool lasting = false;
  MemoryFs::Survives survives = MemoryFs::Survives::kNothing;
  bool stops = false;  // the process ends after the first refusal
};

class FaultyDisk : public ::testing::TestWithParam<StateFileKind> {
 protected:
  // Thousands of restarts would each say what they found.
  FaultyDisk() { log::set_level(log::Level::kOff); }

  void expect_reason(const std::string& message) const {
    EXPECT_THAT(message, AnyOf(HasSubstr("error"), HasSubstr("No space left"),
                               HasSubstr("Read-only"), HasSubstr("Too many open files")));
    EXPECT_THAT(message, HasSubstr("state"));
  }

  // Runs `change` of `names`, in a process that may end of it.
  template <typename Change>
  void change(Account& account, const std::vector<std::string>& names, bool there, bool strict,
              const Change& change) {
    try {
      Status s;
      try {
        s = change();
      } catch (const std::exception& e) {
        s = Status(Code::kIo, e.what());
      }
      if (!s.ok()) {
        expect_reason(s.message());
        refused_ = true;
      }
      for (const std::string& name : names) {
        if (s.ok()) {
          account.acknowledged(name, there);
        } else if (!strict) {
          account.unknown(name, there);
        }
      }
    } catch (...) {  // the process ends
      for (const std::string& name : names) account.unknown(name, there);
      throw;
    }
  }

  std::unique_ptr<StateFile> open(Fs& fs) {
    for (int tries = 0; tries < 3; ++tries) {
      try {
        return GetParam().open(fs, clock_);
      } catch (const std::exception& e) {
        expect_reason(e.what());
      }
    }
    return nullptr;
  }

  void work(Fs& fs, Account& account, bool strict, bool stops) {
    const std::unique_ptr<StateFile> file = open(fs);
    if (!file) return;
    refused_ = false;
    const bool together = strict && GetParam().together;
    change(account, {"d", "e"}, true, together, [&] { return file->add({"d", "e"}); });
    if (stops && refused_) return;
    if (GetParam().removes) {
      change(account, {"a"}, false, strict, [&] { return file->remove("a"); });
      if (stops && refused_) return;
    }
    change(account, {}, true, strict, [&] { return file->tidy(); });
    if (stops && refused_) return;
    change(account, {"f"}, true, strict, [&] { return file->add({"f"}); });
  }

  int sweep(Strike each);
  // Whether the fault struck.
  bool strike(const Strike& strike) {
    MemoryFs disk;
    Account account;
    disk.make_directories("state").or_throw();
    {
      FaultyFs fs(disk);
      const auto file = GetParam().open(fs, clock_);
      file->add({"a"}).or_throw();
      file->add({"b", "c"}).or_throw();
      for (const char* name : {"a", "b", "c"}) account.acknowledged(name, true);
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
    disk.crash(strike.survives);
    restart(disk, account, is_lie(strike.fault));
    return struck;
  }

  // A disk that said that something is durable which is not may cost what was said in that process,
  // or the file, which is named then; it brings nothing back, and nothing twice.
  void restart(MemoryFs& disk, Account account, bool lied) {
    FaultyFs fs(disk);
    if (lied) {
      for (const char* name : {"a", "d", "e", "f"}) account.nothing_is_certain_of(name);
    }
    try {
      const auto file = GetParam().open(fs, clock_);
      EXPECT_EQ(account.objection(file->names()), "");
      file->add({"g"}).or_throw();
      account.acknowledged("g", true);
    } catch (const std::exception& e) {
      if (!lied) ADD_FAILURE() << e.what();
      EXPECT_THAT(e.what(), HasSubstr("state"));
      return;
    }
    const auto file = GetParam().open(fs, clock_);
    EXPECT_EQ(account.objection(file->names()), "") << "after one more restart";
  }

  bool refused_ = false;
  const FsyncThrows throws_;
  ManualClock clock_;
};

// Strikes one operation after the other; how many there were.
int FaultyDisk::sweep(Strike each) {
  const std::string how =
      std::string(name_of(each.fault)) + (each.lasting ? " from it on" : "") +
      (each.stops ? ", then the process ends" : "") +
      (each.survives == MemoryFs::Survives::kAll ? ", the machine does not" : "");
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

INSTANTIATE_TEST_SUITE_P(Of, FaultyDisk, ::testing::ValuesIn(state_file_kinds()),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace ndtrain::faults
