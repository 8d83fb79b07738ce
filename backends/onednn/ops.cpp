#include "backends/onednn/ops.h"

#include <map>

namespace ndtrain::onednn {

#define OP(name, prepare, prefer)                                  \
  std::unique_ptr<Kernel> prepare(const ndt_device&, const Node&); \
  void prefer(const Node&, ndt_tensor_type*, ndt_tensor_type*);
#define PLAIN_OP(name, prepare) std::unique_ptr<Kernel> prepare(const ndt_device&, const Node&);
#include "backends/onednn/ops.inc"
#undef PLAIN_OP
#undef OP

const Op* find_op(std::string_view name) {
  static const std::map<std::string_view, Op> table = {
#define OP(name, prepare, prefer) {#name, {prepare, prefer}},
#define PLAIN_OP(name, prepare) {#name, {prepare, nullptr}},
#include "backends/onednn/ops.inc"
#undef PLAIN_OP
#undef OP
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace ndtrain::onednn
