// What hands its input on: views (a plan aliases them, so these run only outside plans) and Dropout
// at inference.
#include "backends/cpu/kernels/strided_copy.h"

namespace ndtrain::cpu {
namespace {

std::unique_ptr<Kernel> view_kernel(const Node& node) {
  const size_t n = bytes(node.out());
  if (bytes(node.in(0)) != n) invalid("the output has another size than the input");
  auto k =
      kernel([n](const void* const* in, void* const* out, void*) { copy_bytes(out[0], in[0], n); });
  k->in_place_inputs = 1;
  return k;
}

std::unique_ptr<Kernel> dropout_kernel(const Node& node) {
  if (node.has(2)) {
    for (const int64_t training : node.known_ints(2)) {
      if (training && !(node.has(1) && node.known_doubles(1).at(0) == 0)) {
        unsupported("training_mode; DropoutMask is for training");
      }
    }
  }
  const size_t n = bytes(node.out());
  const size_t mask = node.has_output(1) ? bytes(node.out(1)) : 0;
  auto k = kernel([n, mask](const void* const* in, void* const* out, void*) {
    copy_bytes(out[0], in[0], n);
    if (mask) fill_bytes(out[1], 1, mask);
  });
  k->in_place_inputs = 1;
  return k;
}

const Registered registered{
    {"Reshape", view_kernel},    {"Flatten", view_kernel},  {"Squeeze", view_kernel},
    {"Unsqueeze", view_kernel},  {"Identity", view_kernel}, {"Reorder", view_kernel},
    {"Dropout", dropout_kernel}, {"BitCast", view_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
