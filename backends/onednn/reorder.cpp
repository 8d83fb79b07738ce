// Reorder: the same values in another layout.
#include "backends/onednn/ops.h"
#include "backends/onednn/sliced.h"

namespace ndtrain::onednn {
namespace {

// Values are moved, not read: any dtype of a size will do.
ndt_tensor_type movable(ndt_tensor_type t) {
  switch (size_of(t.dtype)) {
    case 1:
      t.dtype = NDT_U8;
      return t;
    case 2:
      // Nothing else here is for 16 bits without AVX-512, and the library's reorder changes them.
      if (!has_avx512()) unsupported("elements of 2 bytes need AVX-512");
      t.dtype = NDT_BF16;
      return t;
    case 4:
      t.dtype = NDT_F32;
      return t;
    default:
      unsupported("elements of ", size_of(t.dtype), " bytes are not moved");
  }
}

}  // namespace

std::unique_ptr<Kernel> prepare_reorder(const ndt_device&, const Node& node) {
  const ndt_tensor_type x = movable(node.in(0)), y = movable(node.out());
  if (node.in(0).dtype != node.out().dtype) unsupported("its dtype changes");
  if (x.rank != y.rank || !std::equal(x.dims, x.dims + x.rank, y.dims)) {
    invalid("its dims change to ", describe(y));
  }
  if (x.rank < 1 || count(x) == 0) unsupported("it is empty or a scalar");
  const Layout from = layout_of(x, "input 0"), to = layout_of(y, "output 0");
  Sliced::Plan plan{.images = x.dims[0], .sizes = {1}};
  plan.make = [=](int64_t images) {
    return reorder(desc_of(x, from, images), desc_of(y, to, images));
  };
  plan.ports.push_back(input_port(0, x, from));
  set_output(plan, y, to);
  return std::make_unique<Sliced>(std::move(plan));
}

}  // namespace ndtrain::onednn
