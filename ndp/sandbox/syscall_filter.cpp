#include "ndp/sandbox/syscall_filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace ndtrain::ndp {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif

// Without arguments that matter.
constexpr uint32_t kHarmless[] = {
    SYS_munmap,         SYS_mremap,       SYS_brk,           SYS_madvise,
    SYS_futex,          SYS_exit,         SYS_exit_group,    SYS_rt_sigreturn,
    SYS_rt_sigprocmask, SYS_sigaltstack,  SYS_clock_gettime, SYS_clock_nanosleep,
    SYS_nanosleep,      SYS_gettimeofday, SYS_sched_yield,   SYS_sched_getaffinity,
    SYS_getrandom,      SYS_gettid,       SYS_getpid,        SYS_restart_syscall,
    SYS_rt_sigaction,   SYS_sysinfo,      SYS_rseq,          SYS_set_robust_list,
};

// What is asked of an argument: that it has any of these bits, or is this, or the opposite. All
// that is compared is its lower half: flags, descriptors and process numbers have no other.
struct Condition {
  size_t argument;
  uint16_t compare;  // BPF_JSET, BPF_JEQ
  uint32_t value;
  bool holds = true;
};

// A program of the kernel's classic BPF: rules one after the other, of which the first that is of
// the call decides.
class FilterProgram {
 public:
  FilterProgram() {
    load(offsetof(seccomp_data, arch));
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0));
    decide(SECCOMP_RET_KILL_PROCESS);
    load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
    constexpr uint32_t kX32 = 0x40000000;  // the same calls by other numbers
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kX32, 0, 1));
    decide(SECCOMP_RET_KILL_PROCESS);
#endif
  }

  // `yes` where all conditions are met, else `no`.
  void rule(uint32_t call, uint32_t yes, const std::vector<Condition>& conditions = {},
            uint32_t no = SECCOMP_RET_KILL_PROCESS) {
    constexpr uint8_t kEach = 3;
    const auto size = static_cast<uint8_t>(kEach * conditions.size() + 1);
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, size));
    for (const Condition& c : conditions) {
      load(static_cast<uint32_t>(offsetof(seccomp_data, args) + sizeof(uint64_t) * c.argument));
      const auto jump = static_cast<uint16_t>(BPF_JMP | c.compare | BPF_K);
      code_.push_back(c.holds ? sock_filter(BPF_JUMP(jump, c.value, 1, 0))
                              : sock_filter(BPF_JUMP(jump, c.value, 0, 1)));
      decide(no);
    }
    decide(yes);
  }
  void decide(uint32_t decision) { code_.push_back(BPF_STMT(BPF_RET | BPF_K, decision)); }

  std::vector<sock_filter>& code() { return code_; }

 private:
  void load(uint32_t offset) { code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)); }

  std::vector<sock_filter> code_;
};

FilterProgram decoders_program(uint32_t socket, uint32_t process) {
  constexpr uint32_t kAllow = SECCOMP_RET_ALLOW;
  const auto refuse = [](int error) { return SECCOMP_RET_ERRNO | static_cast<uint32_t>(error); };
  const Condition no_code{.argument = 2, .compare = BPF_JSET, .value = PROT_EXEC, .holds = false};
  FilterProgram p;
  p.rule(SYS_read, kAllow, {{0, BPF_JEQ, socket}});
  p.rule(SYS_sendto, kAllow, {{0, BPF_JEQ, socket}});
  p.rule(SYS_write, refuse(EBADF));
  p.rule(SYS_writev, refuse(EBADF));
  for (const uint32_t call : kHarmless) p.rule(call, kAllow);
  p.rule(SYS_mmap, kAllow, {no_code, {3, BPF_JSET, MAP_ANONYMOUS}});
  p.rule(SYS_mprotect, kAllow, {no_code});
  p.rule(SYS_clone, kAllow, {{0, BPF_JSET, CLONE_THREAD}});
  p.rule(SYS_clone3, refuse(ENOSYS));  // its flags are in memory; libraries then take the other
  p.rule(SYS_prctl, refuse(EPERM));
  p.rule(SYS_tgkill, kAllow, {{0, BPF_JEQ, process}});  // abort()
  p.decide(SECCOMP_RET_KILL_PROCESS);
  return p;
}

}  // namespace

Status filter_syscalls(int socket) {
  if (kArchitecture == 0) {
    return {Code::kUnsupported, "this build is of an architecture that it has no filter for"};
  }
  FilterProgram program =
      decoders_program(static_cast<uint32_t>(socket), static_cast<uint32_t>(getpid()));
  const sock_fprog filter{.len = static_cast<unsigned short>(program.code().size()),
                          .filter = program.code().data()};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0) {
    return {Code::kUnsupported, std::string("seccomp: ") + std::strerror(errno)};
  }
  return {};
}

}  // namespace ndtrain::ndp
