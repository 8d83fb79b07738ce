// MatMulInteger: products of bytes summed in i32. QLinearMatMul: those sums times x_scale * w_scale
// / y_scale, rounded and saturated.
#include "backends/cuda/dnn/product_shape.h"
#include "backends/cuda/kernel.h"

namespace ndtrain::cuda {
namespace {

// A port of scales or zero points: one value, one per row (of the left side) or per column.
struct Port {
  int index = -1;
  Spread how;

  Port() = default;
  Port(const Node& node, int i, bool by_row) {
    if (i < 0 || !node.has(i)) return;
    const int64_t n = count(node.in(i));
    if (n < 1) invalid("input ", i, " is empty");
    index = i;
    how = {
        .dtype = node.in(i).dtype, .row = n > 1 && by_row ? 1 : 0, .col = n > 1 && !by_row ? 1 : 0};
  }
  Spread of(const void* const* in) const {
    Spread s = how;
    s.data = index < 0 ? nullptr : in[index];
    return s;
  }
};

void check_byte(const ndt_tensor_type& t) {
  if (t.dtype != NDT_I8 && t.dtype != NDT_U8) unsupported("takes i8 or u8, not ", name_of(t.dtype));
}

}  // namespace

std::unique_ptr<Kernel> prepare_matmul_bytes(ndt_device&, const Node& node) {
  need_row_major(node);
  const bool linear = node.op() == "QLinearMatMul";
  const int w = linear ? 3 : 1;
  check_byte(node.in(0));
  check_byte(node.in(w));
  if (linear) check_byte(node.out());
  const ByteProduct p{.shape = matmul_shape(node, 0, w, Rows::kApart),  // rows have scales
                      .a = node.in(0).dtype,
                      .b = node.in(w).dtype,
                      .y = node.out().dtype};
  const Port a_zero(node, 2, true), b_zero(node, linear ? 5 : 3, false);
  const Port a_scale(node, linear ? 1 : -1, true), b_scale(node, linear ? 4 : -1, false);
  const Port y_scale(node, linear ? 6 : -1, true), y_zero(node, linear ? 7 : -1, true);
  return kernel([=](ndt_stream& stream, const void* const* in, void* const* out, void*) {
    p.run({.a = in[0],
           .b = in[w],
           .a_zero = a_zero.of(in),
           .b_zero = b_zero.of(in),
           .a_scale = a_scale.of(in),
           .b_scale = b_scale.of(in),
           .y_scale = y_scale.of(in),
           .y_zero = y_zero.of(in),
           .y = out[0]},
          stream.stream);
  });
}

}  // namespace ndtrain::cuda
