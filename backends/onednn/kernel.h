// The form of a kernel, and the table of them. An op is one file with a pair of functions: what
// layouts it would rather have, and the kernel for the layouts it got.
#pragma once

#include <memory>
#include <string>

#include "backends/onednn/layout.h"
#include "backends/onednn/node.h"
#include "backends/plugin/host.h"
#include "backends/plugin/host_kernel.h"
#include "backends/plugin/tuning.h"

struct ndt_device {
  std::shared_ptr<ndtrain::plugin::Tuning> tuning;  // null: a fixed rule
  bool less_memory = false;                         // no Winograd, whose weights are larger
  std::string numerics, description;
};

namespace ndtrain::onednn {

struct Op {
  std::unique_ptr<Kernel> (*prepare)(const ndt_device& device, const Node& node);
  // The types come as they are; constants stay plain. Throws Unsupported: all plain.
  void (*prefer)(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out);
};

// Of cache, so that no two threads' scratch shares one.
inline size_t whole_lines(size_t bytes) {
  constexpr size_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

}  // namespace ndtrain::onednn
