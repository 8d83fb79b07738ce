#include "tests/faults/role_sweep.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "framework/core/log.h"

namespace ndtrain::faults {

RoleSweep::RoleSweep(Disk disk) : disk_(disk) { log::set_level(log::Level::kOff); }

void RoleSweep::sweep(int64_t least) {
  int64_t most = 0;
  for (const auto survives : {MemoryFs::Survives::kNothing, MemoryFs::Survives::kAll}) {
    if (disk_ == Disk::kReal && survives == MemoryFs::Survives::kNothing) continue;
    for (int64_t n = 1;; ++n) {
      ASSERT_LT(n, 5000) << "no end of operations";
      SCOPED_TRACE("operation " + std::to_string(n) + ": " + name_of(GetParam()) +
                   (survives == MemoryFs::Survives::kAll ? ", the machine does not end" : ""));
      if (!strike(n, survives)) {
        most = std::max(most, n - 1);
        break;
      }
      if (HasFailure()) return;  // thousands would follow
    }
  }
  std::printf("%s: %lld operations\n", name_of(GetParam()), static_cast<long long>(most));
  EXPECT_GT(most, least);
}

bool RoleSweep::strike(int64_t n, MemoryFs::Survives survives) {
  MemoryFs memory;
  Fs& disk = disk_ == Disk::kReal ? real_fs() : memory;
  begin(disk);
  {
    FaultyFs fs(disk);
    fs_ = &fs;
    struck_ = false;
    arm(n);
    live_until_its_end();
    rest();
    fs_ = nullptr;
  }
  memory.crash(survives);
  try {
    go_on(disk);
  } catch (const Error& e) {
    if (!lied()) ADD_FAILURE() << e.what();
  }
  return struck_;
}

void RoleSweep::live_until_its_end() {
  try {
    live(*fs_);
  } catch (const FsyncFailed&) {
    return;  // as the process would end
  } catch (const ProcessEnded&) {
    EXPECT_EQ(GetParam(), Fault::kTornWrite);
  } catch (const Error& e) {
    const bool named = std::string_view(e.what()).find("state") != std::string_view::npos;
    EXPECT_TRUE(named || lied()) << e.what();
  }
}

void RoleSweep::rest() {
  struck_ = struck_ || has_struck();
  disarm();
}

std::string fault_name(const ::testing::TestParamInfo<Fault>& fault) {
  std::string name = name_of(fault.param);
  std::ranges::replace(name, ' ', '_');
  return name;
}

}  // namespace ndtrain::faults
