// The work of one process on a state file, of which something goes wrong, and what has to be there
// after a restart.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "framework/testing/fsync_throws.h"
#include "tests/faults/state_files.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::faults {

// An empty directory, where relative paths begin as long as this lives.
class WorkingDirectory {
 public:
  WorkingDirectory() { std::filesystem::current_path(made_.path()); }
  ~WorkingDirectory() { std::filesystem::current_path(before_); }
  WorkingDirectory(const WorkingDirectory&) = delete;
  WorkingDirectory& operator=(const WorkingDirectory&) = delete;

 private:
  const std::filesystem::path before_ = std::filesystem::current_path();
  const support::TemporaryDirectory made_;
};

// Per name: whether it may be in the file, and whether it may not.
class Account {
 public:
  void acknowledged(const std::string& name, bool there) { may_[name] = {there}; }
  void unknown(const std::string& name, bool there) {
    may_.try_emplace(name, std::set{false}).first->second.insert(there);
  }
  void nothing_is_certain_of(const std::string& name) { may_[name] = {false, true}; }

  // What is wrong with a file that has these; "": nothing.
  std::string objection(const std::vector<std::string>& names) const;

 private:
  std::map<std::string, std::set<bool>> may_;
};

class StateFileSweep : public ::testing::TestWithParam<StateFileKind> {
 protected:
  StateFileSweep();

  // Three things, which are acknowledged.
  Account begin(Fs& fs);
  // Until its end, or the process's, by FsyncFailed or ProcessEnded. `strict`: what is refused is
  // not there. `stops`: the process ends after the first refusal.
  void work(Fs& fs, Account& account, bool strict, bool stops);
  // A disk that said that something is durable which is not may cost what was said in that process,
  // or the file, which is named then; it brings nothing back, and nothing twice.
  void restart(Fs& fs, Account account, bool lied);
  // Runs `change` of `names`, in a process that may end of it.
  void change(Account& account, const std::vector<std::string>& names, bool there, bool strict,
              const std::function<Status()>& change);
  void expect_reason(const std::string& message) const;

  bool refused_ = false;
  const FsyncThrows throws_;
  ManualClock clock_;

 private:
  std::unique_ptr<StateFile> open(Fs& fs);
};

std::string kind_name(const ::testing::TestParamInfo<StateFileKind>& kind);

}  // namespace ndtrain::faults
