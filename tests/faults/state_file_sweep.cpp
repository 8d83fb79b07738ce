#include "tests/faults/state_file_sweep.h"

#include <gmock/gmock.h>

#include "framework/core/log.h"

namespace ndtrain::faults {

using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string Account::objection(const std::vector<std::string>& names) const {
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

// Thousands of restarts would each say what they found.
StateFileSweep::StateFileSweep() { log::set_level(log::Level::kOff); }

void StateFileSweep::expect_reason(const std::string& message) const {
  EXPECT_THAT(message, AnyOf(HasSubstr("error"), HasSubstr("No space left"), HasSubstr("is full"),
                             HasSubstr("Read-only"), HasSubstr("Too many open files"),
                             HasSubstr("unable to open database file")));
  EXPECT_THAT(message, HasSubstr("state"));
}

Account StateFileSweep::begin(Fs& fs) {
  Account account;
  const auto file = GetParam().open(fs, clock_);
  file->add({"a"}).or_throw();
  file->add({"b", "c"}).or_throw();
  for (const char* name : {"a", "b", "c"}) account.acknowledged(name, true);
  return account;
}

void StateFileSweep::change(Account& account, const std::vector<std::string>& names, bool there,
                            bool strict, const std::function<Status()>& change) {
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

std::unique_ptr<StateFile> StateFileSweep::open(Fs& fs) {
  for (int tries = 0; tries < 3; ++tries) {
    try {
      return GetParam().open(fs, clock_);
    } catch (const std::exception& e) {
      expect_reason(e.what());
    }
  }
  return nullptr;
}

void StateFileSweep::work(Fs& fs, Account& account, bool strict, bool stops) {
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

void StateFileSweep::restart(Fs& fs, Account account, bool lied) {
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

std::string kind_name(const ::testing::TestParamInfo<StateFileKind>& kind) {
  return kind.param.name;
}

}  // namespace ndtrain::faults
