// From the node that prepare() and prefer() are asked about to the op of it that a plugin has.
#pragma once

#include <memory>

#include "backends/plugin/host.h"
#include "backends/plugin/node.h"

namespace ndtrain::plugin {

// Calls body(op, node) with what `find` has under the op's name; what it throws gets the node's
// description. `who` is the plugin's name.
template <typename Op, typename F>
void with_op(const char* who, const ndt_node* abi_node, const Op* (*find)(std::string_view),
             const F& body) {
  if (!abi_node) invalid("null argument");
  const Node node(*abi_node);
  const Op* op = find(node.op());
  if (!op) unsupported("no ", who, " kernel for ", node.describe());
  try {
    body(*op, node);
  } catch (const Failure& e) {
    throw Failure(e.status, text_of(node.describe(), ": ", e.what()));
  } catch (const std::invalid_argument& e) {
    invalid(node.describe(), ": ", e.what());
  }
}

// Answers prepare() with the kernel that make(op, node) makes, which is the host's from then on.
template <typename Op, typename F>
ndt_status prepare_op(const char* who, const ndt_node* abi_node, ndt_prepared* out,
                      const Op* (*find)(std::string_view), const F& make) noexcept {
  return guarded("prepare", [&] {
    if (!out) invalid("null argument");
    with_op(who, abi_node, find, [&](const Op& op, const Node& node) {
      const OneThread one(*abi_node);
      auto kernel = make(op, node);
      *out = {.kernel = kernel.get(),
              .workspace = kernel->workspace_bytes,
              .packed_inputs = kernel->packed_inputs,
              .in_place_inputs = kernel->in_place_inputs};
      (void)kernel.release();
    });
    return NDT_OK;
  });
}

}  // namespace ndtrain::plugin
