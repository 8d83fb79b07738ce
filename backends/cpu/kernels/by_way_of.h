// For ops whose kernel is compiled for wide types only: narrow inputs are widened into the
// workspace, the wide kernel runs, what it gives is cut back. 16-bit floats go by way of f32, where
// the result is rounded; integers below 64 bits by way of i64, where it wraps. Bits depend on what
// those of the wide kernel depend on.
#pragma once

#include "backends/cpu/kernels/kernel.h"

namespace ndtrain::cpu {

inline bool is_half(ndt_dtype t) { return t == NDT_F16 || t == NDT_BF16; }

// `make` is given the node with the wide type wherever it has a narrow one. Refuses gaps in the
// output.
std::unique_ptr<Kernel> by_way_of_f32(const Node& node, KernelFactory make);
std::unique_ptr<Kernel> by_way_of_i64(const Node& node, KernelFactory make);

// f.template operator()<T>() for the dtype of the first input where that is a float, i64 or u64.
// Other integers come back as i64 to `self`, the factory that calls this.
template <typename F>
std::unique_ptr<Kernel> for_wide_number(const Node& node, KernelFactory self, F f) {
  switch (node.in(0).dtype) {
    case NDT_I64:
      return f.template operator()<int64_t>();
    case NDT_U64:
      return f.template operator()<uint64_t>();
    case NDT_I8:
    case NDT_U8:
    case NDT_I16:
    case NDT_U16:
    case NDT_I32:
    case NDT_U32:
      return by_way_of_i64(node, self);
    default:
      return for_float(node.in(0).dtype, node.op(), std::move(f));
  }
}

}  // namespace ndtrain::cpu
