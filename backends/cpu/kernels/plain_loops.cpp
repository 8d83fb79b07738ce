#include "backends/cpu/kernels/plain_loops.h"

#include <mutex>
#include <set>

namespace ndtrain::cpu {

void say_plain_loops(const Node& node) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::string what = std::string(node.op()) + " of " + std::string(name_of(node.in(0).dtype));
  const std::lock_guard lock(mutex);
  if (!said.insert(what).second) return;
  plugin::log(Level::kWarning,
              "the cpu backend computes " + what +
                  " in plain loops, which may be more than ten times slower than of f32");
}

}  // namespace ndtrain::cpu
