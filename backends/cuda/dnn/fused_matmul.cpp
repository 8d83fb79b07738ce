// FusedMatMul: y = activation(a b + bias) over all rows of a at once, by an epilogue of cuBLASLt.
// Its Gelu is the tanh approximation, up to 5e-4 from the exact one, which near 0 is more than a
// step of f16 or bf16: where the model has the exact one it is refused. How well the library takes
// that tanh is not said, so that f32 is refused too.
#include <algorithm>

#include "backends/cuda/dnn/blas.h"
#include "backends/cuda/dnn/product_shape.h"
#include "backends/cuda/dnn/right_side.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/layout.h"

namespace ndtrain::cuda {
namespace {

constexpr int kBias = 2;

Activation activation_of(const Node& node) {
  const std::string_view steps = node.s("steps");
  if (steps.empty()) return Activation::kNone;
  if (steps == "Relu x0") return Activation::kRelu;
  if (steps == "Gelu x0 approximate=none") unsupported("cuBLASLt's Gelu is the tanh approximation");
  if (steps != "Gelu x0 approximate=tanh") unsupported("no epilogue for steps '", steps, "'");
  if (node.in(0).dtype == NDT_F32) unsupported("Gelu within a product is for 16 bits");
  return Activation::kGeluTanh;
}

BlasProduct product_of(const Node& node) {
  need_row_major(node);
  const ndt_tensor_type &a = node.in(0), &b = node.in(kRight);
  const bool bias = node.has(kBias), transposed = node.i("transB") != 0;
  if (a.dtype != NDT_F32 && a.dtype != NDT_F16 && a.dtype != NDT_BF16) {
    unsupported("no epilogue for dtype ", name_of(a.dtype));
  }
  if (b.dtype != a.dtype || (bias && node.in(kBias).dtype != a.dtype)) unsupported("mixed dtypes");
  if (a.rank < 2 || b.rank != 2) invalid("not matrices");
  BlasProduct p{.dtype = a.dtype, .bias = bias, .activation = activation_of(node)};
  ProductShape& s = p.shape;
  s.k = a.dims[a.rank - 1];
  s.n = b.dims[transposed ? 0 : 1];
  if (b.dims[transposed ? 1 : 0] != s.k) invalid("inner extents differ");
  if (count(a) == 0 || s.n == 0) unsupported("it is empty");
  s.m = count(a) / s.k;
  if (bias && count(node.in(kBias)) != s.n) invalid("its bias is not one number per column");
  if (count(node.out()) != s.m * s.n) invalid("the output does not fit the product");
  if (std::max({s.m, s.n, s.k}) > INT32_MAX) unsupported("an extent is beyond 2^31");
  s.a_row = s.k;
  s.b_row = transposed ? 1 : s.n;
  s.b_col = transposed ? s.k : 1;
  p.usual_rows = usual_rows(node, s, s.m / a.dims[0]);
  return p;
}

}  // namespace

void prefer_fused_matmul(const ndt_device& device, const Node& node, ndt_tensor_type* in,
                         ndt_tensor_type* out) {
  for (int i = 0; i < node.inputs(); ++i) in[i] = row_major(in[i]);
  out[0] = row_major(out[0]);
  const ndt_node wanted = node.with(in, out);
  check_available(device, product_of(Node(wanted)));
}

std::unique_ptr<Kernel> prepare_fused_matmul(ndt_device& device, const Node& node) {
  const Blas blas(device, product_of(node));
  const std::shared_ptr<const Memory> right = upload_right(device, node);
  const bool bias = node.has(kBias);
  auto k =
      kernel([=](ndt_stream& stream, const void* const* in, void* const* out, void* workspace) {
        blas.run(stream, in[0], right ? right->data() : in[kRight], nullptr,
                 bias ? in[kBias] : nullptr, out[0], workspace);
      });
  k->workspace_bytes = blas.workspace_bytes();
  if (right) k->packed_inputs = 1 << kRight;
  return k;
}

}  // namespace ndtrain::cuda
