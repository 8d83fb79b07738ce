#include "backends/cpu/kernels/plain_loops.h"

#include <mutex>
#include <set>

namespace ndtrain::cpu {

void say_plain_loops(const Node& node) {
  constexpr int32_t kWarning = 2;
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::string what = std::string(node.op()) + " of " + std::string(name_of(node.in(0).dtype));
  const std::lock_guard lock(mutex);
  if (!host().log || !said.insert(what).second) return;
  const std::string text = "the cpu backend computes " + what +
                           " in plain loops, which may be more than ten times slower than of f32";
  host().log(kWarning, text.c_str());
}

}  // namespace ndtrain::cpu
