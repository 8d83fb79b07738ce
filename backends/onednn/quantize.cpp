// QuantizeLinear and DequantizeLinear with one scale, and Cast between f32 and bf16: a reorder that
// scales, straight between the layouts of both sides. Bytes lie channels-last, floats blocked.
#include "backends/onednn/ops.h"
#include "backends/onednn/sliced.h"

namespace ndtrain::onednn {
namespace {

bool is_float(ndt_dtype t) { return t == NDT_F32 || (t == NDT_BF16 && has_avx512()); }
bool is_byte(ndt_dtype t) { return t == NDT_U8 || t == NDT_I8; }

void check(const Node& node) {
  const ndt_dtype from = node.in(0).dtype, to = node.out().dtype;
  const bool known = node.op() == "QuantizeLinear"     ? from == NDT_F32 && is_byte(to)
                     : node.op() == "DequantizeLinear" ? is_byte(from) && to == NDT_F32
                                                       : is_float(from) && is_float(to);
  if (!known) unsupported("it is not for ", name_of(from), " to ", name_of(to));
  if (node.in(0).rank < 1 || count(node.in(0)) == 0) unsupported("it is empty or a scalar");
}

Finish finish_of(const Node& node) {
  if (node.op() == "Cast") return {};
  const float scale = node.known_single(1, "scale", 1);
  const auto zero = static_cast<int32_t>(node.known_single(2, "zero point", 0));
  if (node.op() == "QuantizeLinear") return {.scales = {1 / scale}, .dst_zero = zero};
  return {.scales = {scale}, .src_zero = zero};
}

}  // namespace

std::unique_ptr<Kernel> prepare_quantize(const ndt_device&, const Node& node) {
  check(node);
  const ndt_tensor_type x = node.in(0), y = node.out();
  const Finish finish = finish_of(node);
  const Layout from = layout_of(x, "input 0"), to = layout_of(y, "output 0");
  Sliced::Plan plan{.images = x.dims[0], .sizes = {1}};
  plan.make = [=](int64_t images) {
    return reorder(desc_of(x, from, images), desc_of(y, to, images), finish);
  };
  plan.ports.push_back(input_port(0, x, from));
  set_output(plan, y, to);
  return std::make_unique<Sliced>(std::move(plan));
}

void prefer_quantize(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  check(node);
  finish_of(node);
  Layout to = layout_of(in[0], "input 0");
  const bool image = in[0].rank == 4 && in[0].dims[2] * in[0].dims[3] > 1;
  // What lies plain may be no image, and where it is one its bytes are faster to turn than it.
  if (image && to == Layout::kBlocked) to = Layout::kLast;
  if (node.op() == "DequantizeLinear" && !image) to = Layout::kPlain;
  set_layout(out[0], to);
}

}  // namespace ndtrain::onednn
