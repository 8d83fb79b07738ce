// What the host lends a plugin: threads and a log. A plugin starts no threads of its own.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <type_traits>

#include "framework/runtime/backend_abi.h"

namespace ndtrain::plugin {

// What ndt_backend_main() answers: `table()`, or null where the host speaks another version of the
// interface or lends no threads, or where `table` throws.
const ndt_backend* enter(int32_t version, const ndt_host* host,
                         const ndt_backend* (*table)()) noexcept;

const ndt_host& host();  // the one that entered

enum class Level : int32_t { kDebug, kInfo, kWarning, kError };
void log(Level level, const std::string& text);

int threads();  // what the host lends the kernel that this thread prepares, at least 1

// While it lives: whether the kernel that this thread prepares will run in one thread, as
// ndt_node::in_one_thread says.
class OneThread {
 public:
  explicit OneThread(const ndt_node& node) { asked_ = node.in_one_thread != 0; }
  ~OneThread() { asked_ = false; }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

  static bool asked() { return asked_; }

 private:
  static inline thread_local bool asked_ = false;
};

// body(begin, end) over disjoint ranges of at most `grain` covering [0, n). What it throws, the
// host throws again here.
template <typename F>
void parallel_for(int64_t n, int64_t grain, F&& body) {
  if (n <= 0) return;
  if (n <= grain) return body(int64_t{0}, n);
  using Body = std::remove_reference_t<F>;
  host().parallel_for(
      n, std::max<int64_t>(grain, 1),
      [](int64_t begin, int64_t end, void* arg) { (*static_cast<Body*>(arg))(begin, end); },
      const_cast<std::remove_const_t<Body>*>(&body));
}

// body(task, slot) for every task of [0, n), in any order, at most `slots` at once: no two that run
// at the same time have the same slot. So scratch memory is slots * (what one task needs).
template <typename F>
void parallel_tasks(int64_t n, int slots, F&& body) {
  std::atomic<int64_t> next{0};
  parallel_for(std::min<int64_t>(n, slots), 1, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) {
      for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < n;) {
        body(task, static_cast<int>(slot));
      }
    }
  });
}

}  // namespace ndtrain::plugin
