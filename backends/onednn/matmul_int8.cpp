// FusedQLinearMatMul: rows of bytes by a constant i8 matrix, plain. Sums of bytes are exact, so
// that a row has the same bits among any others. The zero point of x goes into the bias, which the
// library adds to the sums: they are in units of x_scale * w_scale[n].
#include "backends/onednn/activation.h"
#include "backends/onednn/ops.h"
#include "backends/onednn/sliced.h"
#include "backends/onednn/weights.h"

namespace ndtrain::onednn {
namespace {

enum MatMulInput { kX, kXScale, kXZero, kW, kWScale, kWZero, kYScale, kYZero, kBias };

struct ByteProduct {
  ndt_dtype x, y;
  int64_t images = 1, rows = 1, k = 1, n = 1;  // rows of one image
  std::vector<int64_t> sizes;
  bool transposed = false;
  Finish finish = {};
  std::vector<float> bias;  // in units of the sums

  Desc weights() const { return any_desc({k, n}, NDT_I8); }
  PrimitivePtr make(int64_t group, const Desc& w) const {
    const int64_t m = group * rows;
    return matmul(plain_desc({m, k}, x), w, plain_desc({1, n}, NDT_F32), plain_desc({m, n}, y),
                  finish);
  }
};

void check_types(const Node& node) {
  const auto is_byte = [](ndt_dtype t) { return t == NDT_U8 || t == NDT_I8; };
  const ndt_dtype y = node.out().dtype;
  if (!has_vnni()) unsupported("products of bytes need AVX512_VNNI or AVX_VNNI to be exact");
  if (!is_byte(node.in(kX).dtype)) unsupported("its left side is not of bytes");
  if (!is_byte(y) && y != NDT_F32) unsupported("its output is ", name_of(y));
  if (node.in(kW).dtype != NDT_I8) unsupported("its matrix is ", name_of(node.in(kW).dtype));
  for (const ndt_tensor_type* t : {&node.in(kX), &node.out()}) {
    if (count(*t) == 0) unsupported("it is empty");
    if (!lies(*t, Layout::kPlain)) unsupported("a side is not plain");
  }
  if (!node.has(kWZero)) return;
  for (const float zero : node.known(kWZero, "zero point of its matrix")) {
    if (zero != 0) unsupported("the zero point of its matrix is ", zero, ", not 0");
  }
}

std::vector<float> scales_of(const Node& node, int64_t n) {
  const float x_scale = node.known_single(kXScale, "scale of x", 1);
  std::vector<float> scales = node.known(kWScale, "scale of its matrix");
  const auto columns = static_cast<size_t>(n);
  if (scales.size() == 1) scales.resize(columns, scales[0]);
  if (scales.size() != columns) invalid(scales.size(), " scales for ", n, " columns");
  for (float& s : scales) s *= x_scale;
  return scales;
}

// What is to be added to the sums of x, zero point included.
std::vector<float> bias_of(const Node& node, const ByteProduct& p) {
  const auto zero = static_cast<int32_t>(node.known_single(kXZero, "zero point of x", 0));
  const auto* w = static_cast<const int8_t*>(node.need_constant(kW, "matrix"));
  const auto n = static_cast<size_t>(p.n), k = static_cast<size_t>(p.k);
  std::vector<int32_t> sums(n);
  for (size_t i = 0; i < n * k; ++i) sums[p.transposed ? i / k : i % n] += w[i];
  std::vector<float> bias(n);
  if (node.has(kBias)) bias = node.known(kBias, "bias");
  if (bias.size() != n) invalid(bias.size(), " addends for ", n, " columns");
  for (size_t i = 0; i < n; ++i) {
    const double real = static_cast<double>(bias[i]) / static_cast<double>(p.finish.scales[i]);
    bias[i] = static_cast<float>(real - static_cast<double>(zero) * sums[i]);
  }
  return bias;
}

// Results leave in units of y_scale: a function that commutes with a factor works in these.
void set_output_scale(const Node& node, Finish& f) {
  const float unit = 1 / node.known_single(kYScale, "scale of y", 1);
  f.dst_zero = static_cast<int32_t>(node.known_single(kYZero, "zero point of y", 0));
  const bool clip = f.activation && f.activation->kind == dnnl::algorithm::eltwise_clip;
  const bool relu = f.activation && f.activation->kind == dnnl::algorithm::eltwise_relu;
  if (f.activation && !clip && !relu) {
    f.factor = unit;
    return;
  }
  for (float& s : f.scales) s *= unit;
  if (clip) f.activation->alpha *= unit, f.activation->beta *= unit;
}

ByteProduct byte_product(const Node& node) {
  check_types(node);
  const ndt_tensor_type &x = node.in(kX), &w = node.in(kW);
  ByteProduct p{.x = x.dtype, .y = node.out().dtype, .images = x.dims[0]};
  p.transposed = node.i("transB") != 0;
  p.k = x.dims[x.rank - 1];
  p.n = w.dims[p.transposed ? 0 : 1];
  constexpr int64_t kMostBytesSummed = 65536;  // 255 * 128 to each fits 32 bits
  if (p.k > kMostBytesSummed) unsupported("sums of ", p.k, " products may not fit 32 bits");
  for (int d = 1; d < x.rank - 1; ++d) p.rows *= x.dims[d];
  p.sizes = x.rank == 2 ? std::vector<int64_t>{1, 4, 16} : std::vector<int64_t>{1, 2, 3, 4};
  p.finish.scales = scales_of(node, p.n);
  p.bias = bias_of(node, p);
  p.finish.activation = activation_of(node);
  set_output_scale(node, p.finish);
  return p;
}

}  // namespace

std::unique_ptr<Kernel> prepare_matmul_int8(const ndt_device&, const Node& node) {
  const ByteProduct p = byte_product(node);
  const Desc wanted = p.make(p.sizes.back(), p.weights())->desc(DNNL_ARG_WEIGHTS);
  const Desc from =
      p.transposed ? transposed_desc({p.k, p.n}, NDT_I8) : plain_desc({p.k, p.n}, NDT_I8);
  const auto weights = packed_weights(node.constant_id(kW), from, wanted,
                                      [&] { return node.need_constant(kW, "matrix"); });
  const auto bias = std::make_shared<const std::vector<float>>(p.bias);
  Sliced::Plan plan{.images = p.images, .sizes = p.sizes};
  plan.make = [=](int64_t images) { return p.make(images, wanted); };
  plan.cut = [=](int64_t parts) {
    return cut_rows(p.rows, p.k * size_of(p.x), p.n * size_of(p.y), 4, parts, [&](int64_t rows) {
      ByteProduct part = p;
      part.rows = rows;
      return part.make(1, wanted);
    });
  };
  plan.ports.push_back(input_port(kX, node.in(kX), Layout::kPlain));
  plan.ports.push_back({Sliced::Port::Role::kFixed, 0, 0, weights->data()});
  plan.ports.push_back({Sliced::Port::Role::kFixed, 0, 0, bias->data()});
  plan.keep = {weights, bias};
  set_output(plan, node.out(), Layout::kPlain);
  auto kernel = std::make_unique<Sliced>(std::move(plan));
  kernel->packed_inputs = uint64_t{1} << kW;
  return kernel;
}

void prefer_matmul_int8(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  set_layout(in[kX], Layout::kPlain);
  set_layout(out[0], Layout::kPlain);
  const ndt_node wanted = node.with(in, out);
  const ByteProduct p = byte_product(Node(wanted));
  (void)p.make(1, p.weights());
}

}  // namespace ndtrain::onednn
