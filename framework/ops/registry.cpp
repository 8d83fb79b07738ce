// Puts the ops of ops.inc into the graph's table. Programs are linked with `ndtrain_ops`, so that
// they have this file.
#include "framework/graph/op.h"

namespace ndtrain {

#define OPS(family) std::vector<OpDef> family##_ops();
#include "framework/ops/ops.inc"
#undef OPS

namespace {

std::vector<OpDef> every_family() {
  std::vector<OpDef> all;
  const auto append = [&](std::vector<OpDef> family) {
    for (OpDef& op : family) all.push_back(std::move(op));
  };
#define OPS(family) append(family##_ops());
#include "framework/ops/ops.inc"
#undef OPS
  return all;
}

}  // namespace
}  // namespace ndtrain

extern "C" {
extern const bool ndtrain_ops;
const bool ndtrain_ops = ndtrain::add_ops(ndtrain::every_family);
}
