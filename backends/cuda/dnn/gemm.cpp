// Gemm: y = alpha op(a) op(b) + beta c, c broadcast to y. MatMul: NumPy's products of stacked
// matrices. Floats by cuBLASLt; integers, and sums without terms, by a plain kernel. Constant right
// sides are uploaded once for all plans.
#include <numeric>

#include "backends/cuda/dnn/blas.h"
#include "backends/cuda/dnn/product_shape.h"
#include "backends/cuda/dnn/right_side.h"
#include "backends/cuda/kernel.h"

namespace ndtrain::cuda {
namespace {

constexpr int kAddend = 2;
constexpr size_t kAlignment = 16;

void check_dtypes(const Node& node) {
  for (int i = 1; i < node.inputs(); ++i) {
    if (node.has(i) && node.in(i).dtype != node.in(0).dtype) unsupported("mixed dtypes");
  }
  switch (node.in(0).dtype) {
    case NDT_F32:
    case NDT_F16:
    case NDT_BF16:
    case NDT_F64:
    case NDT_I32:
    case NDT_U32:
    case NDT_I64:
    case NDT_U64:
      return;
    default:
      unsupported("no product of dtype ", name_of(node.in(0).dtype));
  }
}

bool is_float(ndt_dtype t) { return t == NDT_F32 || t == NDT_F16 || t == NDT_BF16 || t == NDT_F64; }

// How c of Gemm lies over y.
enum class Addend { kNone, kBias, kWhole, kOther };

struct Gemm {
  ProductShape shape;
  ndt_dtype dtype;
  double alpha = 1, beta = 1;
  Addend addend = Addend::kNone;
  Spread c;  // without its data
};

void set_addend(Gemm& g, const Node& node) {
  if (!node.has(kAddend)) return;
  const ndt_tensor_type& c = node.in(kAddend);
  const int64_t columns = c.rank > 0 ? c.dims[c.rank - 1] : 1;
  const int64_t rows = c.rank > 1 ? c.dims[c.rank - 2] : 1;
  const ProductShape& s = g.shape;
  if (c.rank > 2 || (columns != 1 && columns != s.n) || (rows != 1 && rows != s.m)) {
    invalid("c ", plugin::describe(c), " does not broadcast to the product");
  }
  g.c = {.dtype = g.dtype, .row = rows > 1 ? columns : 0, .col = columns > 1 ? 1 : 0};
  const bool per_column = rows == 1 && columns == s.n;
  if (per_column && g.beta == 1 && g.dtype != NDT_F64) {
    g.addend = Addend::kBias;
  } else {
    g.addend = rows == s.m && columns == s.n ? Addend::kWhole : Addend::kOther;
  }
}

class PlainGemm final : public Kernel {
 public:
  explicit PlainGemm(const Gemm& g) : g_(g) {}

  void run(ndt_stream& stream, const void* const* in, void* const* out, void*) const override {
    const PlainProduct p{.shape = g_.shape,
                         .a = g_.dtype,
                         .b = g_.dtype,
                         .y = g_.dtype,
                         .alpha = g_.alpha,
                         .beta = g_.beta};
    Spread c = g_.c;
    if (g_.addend != Addend::kNone) c.data = in[kAddend];
    p.run(in[0], in[kRight], c, out[0], stream.stream);
  }

 private:
  Gemm g_;
};

class BlasGemm final : public Kernel {
 public:
  // The outer dims of a stack that does not go on evenly are products of their own, all alike.
  BlasGemm(const ndt_device& device, const Gemm& g, int64_t usual_rows,
           std::shared_ptr<const Memory> right)
      : g_(g), right_(std::move(right)), blas_(device, product_of(g, usual_rows)) {
    workspace_bytes = blas_.workspace_bytes();
    if (right_) packed_inputs = 1 << kRight;
    const ProductShape& s = g.shape;
    const int outer = std::max(s.rank - 1, 0);
    for (int d = 0; d < outer; ++d) parts_ *= s.extent[d];
  }

  void run(ndt_stream& stream, const void* const* in, void* const* out,
           void* workspace) const override {
    const void* right = right_ ? right_->data() : in[kRight];
    const void* addend = g_.addend == Addend::kNone ? nullptr : in[kAddend];
    if (g_.addend == Addend::kOther) {
      Spread c = g_.c;
      c.data = addend;
      spread(c, 1, g_.shape.m, g_.shape.n, g_.dtype, out[0], stream.stream);
    }
    for (int64_t part = 0; part < parts_; ++part) {
      const Place at = place(part);
      blas_.run(stream, moved(in[0], at.a), moved(right, at.b),
                g_.addend == Addend::kWhole ? addend : nullptr, addend,
                const_cast<void*>(moved(out[0], at.y)), workspace);
    }
  }

 private:
  struct Place {
    int64_t a = 0, b = 0, y = 0;
  };

  static BlasProduct product_of(const Gemm& g, int64_t usual_rows) {
    BlasProduct p{.shape = g.shape,
                  .dtype = g.dtype,
                  .alpha = g.alpha,
                  .beta = g.addend == Addend::kWhole || g.addend == Addend::kOther ? g.beta : 0,
                  .bias = g.addend == Addend::kBias,
                  .alignment = kAlignment,
                  .usual_rows = usual_rows};
    ProductShape& s = p.shape;
    if (s.rank < 2) return p;
    const int last = s.rank - 1;
    const auto size = static_cast<size_t>(size_of(g.dtype));
    size_t bytes = p.alignment;
    for (int d = 0; d < last; ++d) {
      bytes = std::gcd(bytes, static_cast<size_t>(s.a_step[d]) * size);
      bytes = std::gcd(bytes, static_cast<size_t>(s.b_step[d]) * size);
    }
    p.alignment = std::gcd(bytes, static_cast<size_t>(s.extent[last] * s.m * s.n) * size);
    s.extent[0] = s.extent[last];
    s.a_step[0] = s.a_step[last];
    s.b_step[0] = s.b_step[last];
    s.rank = 1;
    return p;
  }

  Place place(int64_t part) const {
    const ProductShape& s = g_.shape;
    if (s.rank < 2) return {};
    Place at{.y = part * s.extent[s.rank - 1] * s.m * s.n};
    for (int d = s.rank - 1; d-- > 0;) {
      const int64_t i = part % s.extent[d];
      part /= s.extent[d];
      at.a += i * s.a_step[d];
      at.b += i * s.b_step[d];
    }
    return at;
  }

  const void* moved(const void* data, int64_t elements) const {
    return static_cast<const char*>(data) + elements * size_of(g_.dtype);
  }

  Gemm g_;
  std::shared_ptr<const Memory> right_;
  Blas blas_;
  int64_t parts_ = 1;
};

std::unique_ptr<Kernel> product_kernel(const ndt_device& device, const Node& node, const Gemm& g,
                                       int64_t rows_of_an_image) {
  const ProductShape& s = g.shape;
  if (!is_float(g.dtype) || s.k == 0 || s.products() * s.m * s.n == 0) {
    return std::make_unique<PlainGemm>(g);
  }
  for (const int64_t extent : {s.m, s.n, s.k, s.products()}) {
    if (extent > INT32_MAX) unsupported("an extent of ", extent, " is beyond 2^31");
  }
  return std::make_unique<BlasGemm>(device, g, usual_rows(node, s, rows_of_an_image),
                                    upload_right(device, node));
}

}  // namespace

std::unique_ptr<Kernel> prepare_gemm(ndt_device& device, const Node& node) {
  check_dtypes(node);
  need_row_major(node);
  Gemm g{.shape = gemm_shape(node),
         .dtype = node.in(0).dtype,
         .alpha = node.f("alpha"),
         .beta = node.f("beta")};
  set_addend(g, node);
  return product_kernel(device, node, g, node.i("transA") != 0 ? 0 : 1);
}

std::unique_ptr<Kernel> prepare_matmul(ndt_device& device, const Node& node) {
  check_dtypes(node);
  need_row_major(node);
  const ndt_tensor_type& a = node.in(0);
  const bool one_right = node.constant(kRight) || node.in(kRight).rank <= 2;
  const Gemm g{.shape = matmul_shape(node, 0, kRight, one_right ? Rows::kJoined : Rows::kApart),
               .dtype = a.dtype};
  int64_t rows = 1;
  for (int d = 1; d + 1 < a.rank; ++d) rows *= a.dims[d];
  return product_kernel(device, node, g, rows);
}

}  // namespace ndtrain::cuda
