#include "ndp/sandbox/confinement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "ndp/sandbox/landlock.h"
#include "ndp/sandbox/syscall_filter.h"

namespace ndtrain::ndp {
namespace {

// Their runtimes reserve terabytes of addresses, and ask the kernel for what no decoder needs.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif
constexpr const char* kSanitizer = "this build is a sanitizer's";

Status limit(__rlimit_resource resource, rlim_t value, const char* name, rlim_t more = 0) {
  const rlimit both{.rlim_cur = value, .rlim_max = value + more};
  if (setrlimit(resource, &both) == 0) return {};
  return {Code::kIo, std::string(name) + ": " + std::strerror(errno)};
}

int64_t address_space() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

Status set_limits(const ConfinementLimits& limits, Confinement& is) {
  if (Status s = limit(RLIMIT_CORE, 0, "RLIMIT_CORE"); !s.ok()) return s;
  constexpr rlim_t kSecond = 1;  // between SIGXCPU, by which the owner knows, and SIGKILL
  if (Status s = limit(RLIMIT_CPU, static_cast<rlim_t>(limits.cpu_seconds), "RLIMIT_CPU", kSecond);
      !s.ok()) {
    return s;
  }
  if (kSanitized) {
    is.missing.push_back(std::string("the limit of memory (") + kSanitizer + ")");
    return {};
  }
  is.memory = true;
  return limit(RLIMIT_AS, static_cast<rlim_t>(address_space() + limits.memory), "RLIMIT_AS");
}

}  // namespace

std::string Confinement::held_by(const ConfinementLimits& limits) const {
  std::string text = "processes of their own";
  if (filter) text += ", a filter of system calls";
  if (landlock > 0) text += fmt::format(", Landlock {}", landlock);
  if (memory) {
    text += fmt::format(", {:.3g} GiB of memory", static_cast<double>(limits.memory) / (1 << 30));
  }
  return text;
}

std::string Confinement::lacks() const { return fmt::format("{}", fmt::join(missing, ", ")); }

Result<Confinement> confine(int socket, const ConfinementLimits& limits) {
  Confinement is;
  if (Status s = set_limits(limits, is); !s.ok()) return s;
  // Nobody else's process may look into this one's memory, whoever runs it.
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return Status(Code::kIo, std::string("prctl: ") + std::strerror(errno));
  }
  const Result<int> landlock =
      limits.landlock ? reach_no_files() : Status(Code::kUnsupported, "not wanted");
  if (landlock.ok()) is.landlock = *landlock;
  if (!landlock.ok()) is.missing.push_back("Landlock (" + landlock.status().message() + ")");
  const Status filter = kSanitized       ? Status(Code::kUnsupported, kSanitizer)
                        : !limits.filter ? Status(Code::kUnsupported, "not wanted")
                                         : filter_syscalls(socket);
  is.filter = filter.ok();
  if (!filter.ok()) is.missing.push_back("the filter of system calls (" + filter.message() + ")");
  return is;
}

}  // namespace ndtrain::ndp
