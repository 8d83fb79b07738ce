// The form of a kernel, and the table of them. An op is one file with a pair of functions: what
// layouts it would rather have, and the kernel for the layouts it got.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include "backends/onednn/layout.h"
#include "backends/onednn/node.h"
#include "backends/plugin/tuning.h"

struct ndt_device {
  std::shared_ptr<ndtrain::plugin::Tuning> tuning;  // null: a fixed rule
  bool less_memory = false;                         // no Winograd, whose weights are larger
  std::string numerics, description;
};

// Immutable: run() may be called on several streams at once.
struct ndt_kernel {
  virtual ~ndt_kernel() = default;
  virtual void run(const void* const* in, void* const* out, void* workspace) const = 0;

  size_t workspace_bytes = 0;
  uint64_t packed_inputs = 0;  // see ndt_prepared
  uint64_t in_place_inputs = 0;
};

namespace ndtrain::onednn {

using Kernel = ndt_kernel;

struct Op {
  std::unique_ptr<Kernel> (*prepare)(const ndt_device& device, const Node& node);
  // The types come as they are; constants stay plain. Throws Unsupported: all plain.
  void (*prefer)(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out);
};

const ndt_host& host();
void set_host(const ndt_host& host);
int threads();  // what the host lends the kernel that is prepared, at least 1

// Of cache, so that no two threads' scratch shares one.
inline size_t whole_lines(size_t bytes) {
  constexpr size_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

// body(task, slot) for every task of [0, n), at most `slots` at once, no two of them with one slot.
// The body must not throw.
template <typename F>
void parallel_tasks(int64_t n, int slots, F&& body) {
  if (n == 1 || slots == 1) {
    for (int64_t task = 0; task < n; ++task) body(task, 0);
    return;
  }
  std::atomic<int64_t> next{0};
  auto work = [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) {
      for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < n;) {
        body(task, static_cast<int>(slot));
      }
    }
  };
  using Work = decltype(work);
  host().parallel_for(
      std::min<int64_t>(n, slots), 1,
      [](int64_t begin, int64_t end, void* arg) { (*static_cast<Work*>(arg))(begin, end); }, &work);
}

}  // namespace ndtrain::onednn
