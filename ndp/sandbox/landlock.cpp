#include "ndp/sandbox/landlock.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "framework/core/descriptor.h"

namespace ndtrain::ndp {
namespace {

// As <linux/landlock.h> has it since version 6 of the interface; Debian 12's is older.
struct Ruleset {
  uint64_t files = 0, network = 0, scoped = 0;
};
constexpr size_t kSizes[] = {8, 8, 8, 8, 16, 16, 24};  // of it, by version
constexpr unsigned kAskVersion = 1;

// All that a version can take away.
Ruleset all_of(int version) {
  Ruleset all{.files = (uint64_t{1} << 13) - 1};
  if (version >= 2) all.files |= uint64_t{1} << 13;  // renaming between directories
  if (version >= 3) all.files |= uint64_t{1} << 14;  // truncating
  if (version >= 4) all.network = 3;                 // TCP: binding, connecting
  if (version >= 5) all.files |= uint64_t{1} << 15;  // ioctl of devices
  if (version >= 6) all.scoped = 3;                  // abstract sockets, signals
  return all;
}

}  // namespace

Result<int> reach_no_files() {
  const auto failed = [](const char* what) {
    return Status(Code::kUnsupported, std::string(what) + ": " + std::strerror(errno));
  };
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, kAskVersion);
  if (version < 1) return failed("landlock");
  const Ruleset rules = all_of(static_cast<int>(version));
  const size_t size = version < 6 ? kSizes[version] : sizeof(rules);
  const Descriptor ruleset(
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &rules, size, 0U)));
  if (!ruleset) return failed("landlock_create_ruleset");
  if (syscall(SYS_landlock_restrict_self, ruleset.get(), 0U) != 0) {
    return failed("landlock_restrict_self");
  }
  return static_cast<int>(version);
}

}  // namespace ndtrain::ndp
