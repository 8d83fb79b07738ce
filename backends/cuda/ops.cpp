#include "backends/cuda/ops.h"

#include <map>

namespace ndtrain::cuda {

#define OP(name, prepare, prefer)                            \
  std::unique_ptr<Kernel> prepare(ndt_device&, const Node&); \
  void prefer(const ndt_device&, const Node&, ndt_tensor_type*, ndt_tensor_type*);
#define PLAIN_OP(name, prepare) std::unique_ptr<Kernel> prepare(ndt_device&, const Node&);
#include "backends/cuda/dnn/ops.inc"
#include "backends/cuda/kernels/ops.inc"
#undef PLAIN_OP
#undef OP

const Op* find_op(std::string_view name) {
  static const std::map<std::string_view, Op> table = {
#define OP(name, prepare, prefer) {#name, {prepare, prefer}},
#define PLAIN_OP(name, prepare) {#name, {prepare, nullptr}},
#include "backends/cuda/dnn/ops.inc"
#include "backends/cuda/kernels/ops.inc"
#undef PLAIN_OP
#undef OP
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace ndtrain::cuda
