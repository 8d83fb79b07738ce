// Concat and Split: one strided copy per part.
#include "backends/cpu/kernels/strided_copy.h"

namespace ndtrain::cpu {
namespace {

// Copies a part [outer, extent, inner] into or out of the whole [outer, total, inner].
struct Parts {
  int64_t outer, total, inner;
  size_t element_bytes;

  Parts(const ndt_tensor_type& whole, int axis)
      : outer(count(whole, 0, axis)),
        total(whole.dims[axis]),
        inner(count(whole, axis + 1, whole.rank)),
        element_bytes(size_of(whole.dtype)) {}

  StridedCopy put(int64_t begin, int64_t extent) const {
    const StridedCopy::Dim dims[] = {{outer, extent * inner, total * inner},
                                     {extent * inner, 1, 1}};
    return {dims, element_bytes, 0, begin * inner};
  }
  StridedCopy take(int64_t begin, int64_t extent) const {
    const StridedCopy::Dim dims[] = {{outer, total * inner, extent * inner},
                                     {extent * inner, 1, 1}};
    return {dims, element_bytes, begin * inner, 0};
  }
};

std::unique_ptr<Kernel> concat_kernel(const Node& node) {
  const int axis = axis_of(node, node.out().rank);
  const Parts parts(node.out(), axis);
  std::vector<StridedCopy> copies;
  int64_t begin = 0;
  for (int i = 0; i < node.inputs(); ++i) {
    const int64_t extent = node.in(i).dims[axis];
    copies.push_back(parts.put(begin, extent));
    begin += extent;
  }
  if (begin != parts.total) invalid("the parts sum to ", begin, ", the output has ", parts.total);
  return kernel([copies](const void* const* in, void* const* out, void*) {
    for (size_t i = 0; i < copies.size(); ++i) copies[i].run(in[i], out[0]);
  });
}

std::unique_ptr<Kernel> split_kernel(const Node& node) {
  const int axis = axis_of(node, node.in(0).rank);
  const Parts parts(node.in(0), axis);
  std::vector<StridedCopy> copies;
  int64_t begin = 0;
  for (int i = 0; i < node.outputs(); ++i) {
    const int64_t extent = node.out(i).dims[axis];
    copies.push_back(parts.take(begin, extent));
    begin += extent;
  }
  if (begin != parts.total) invalid("the parts sum to ", begin, ", the input has ", parts.total);
  return kernel([copies](const void* const* in, void* const* out, void*) {
    for (size_t i = 0; i < copies.size(); ++i) copies[i].run(in[0], out[i]);
  });
}

const Registered registered{
    {"Concat", concat_kernel},
    {"Split", split_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
