// MatMul: NumPy's products of stacked matrices, with vectors and broadcasting.
// Gemm: y = alpha * op(a) op(b) + beta * c, c broadcast to y.
#include "backends/cpu/kernels/by_way_of.h"
#include "backends/cpu/kernels/matrix_product.h"
#include "backends/cpu/kernels/plain_loops.h"

namespace ndtrain::cpu {
namespace {

// What OpenBLAS counts with.
void check_extents(const MatrixProducts& p) {
  for (const int64_t extent : {p.m, p.n, p.k}) {
    if (extent > INT32_MAX) unsupported("an extent of ", extent, " is beyond 2^31");
  }
}

// Element offsets of the matrices of one operand, one per product: its leading dims broadcast to
// y's.
std::vector<int64_t> matrix_offsets(const ndt_tensor_type& t, const std::vector<int64_t>& batch,
                                    int64_t matrix) {
  const int own = std::max(0, t.rank - 2), rank = static_cast<int>(batch.size());
  int64_t products = 1;
  for (const int64_t extent : batch) products *= extent;
  std::vector<int64_t> offsets(static_cast<size_t>(products));
  for (int64_t p = 0; p < products; ++p) {
    int64_t rest = p, step = matrix, at = 0;
    for (int d = rank; d-- > 0;) {
      const int64_t index = rest % batch[static_cast<size_t>(d)];
      rest /= batch[static_cast<size_t>(d)];
      const int of = d - (rank - own);
      if (of < 0) continue;
      if (t.dims[of] > 1) at += index * step;
      step *= t.dims[of];
    }
    offsets[static_cast<size_t>(p)] = at;
  }
  return offsets;
}

MatrixProducts matmul_products(const Node& node) {
  const ndt_tensor_type &a = node.in(0), &b = node.in(1), &y = node.out();
  if (a.rank < 1 || b.rank < 1) invalid("scalars do not multiply");
  MatrixProducts p{};
  p.k = a.dims[a.rank - 1];
  p.m = a.rank > 1 ? a.dims[a.rank - 2] : 1;
  p.n = b.rank > 1 ? b.dims[b.rank - 1] : 1;
  if ((b.rank > 1 ? b.dims[b.rank - 2] : b.dims[0]) != p.k) invalid("inner extents differ");
  p.a_row = p.k;
  p.a_col = 1;
  p.b_row = p.n;
  p.b_col = 1;
  const int batch_rank = std::max({0, a.rank - 2, b.rank - 2});
  const std::vector<int64_t> batch(y.dims, y.dims + std::min(batch_rank, y.rank));
  p.a_at = matrix_offsets(a, batch, p.m * p.k);
  p.b_at = matrix_offsets(b, batch, p.k * p.n);
  if (p.products() * p.m * p.n != count(y)) invalid("the output does not fit the product");
  check_extents(p);
  return p;
}

MatrixProducts gemm_product(const Node& node) {
  const ndt_tensor_type &a = node.in(0), &b = node.in(1), &y = node.out();
  if (a.rank != 2 || b.rank != 2 || y.rank != 2) invalid("not matrices");
  const bool ta = node.i("transA", 0) != 0, tb = node.i("transB", 0) != 0;
  MatrixProducts p{};
  p.m = a.dims[ta ? 1 : 0];
  p.k = a.dims[ta ? 0 : 1];
  p.n = b.dims[tb ? 0 : 1];
  p.a_row = ta ? 1 : p.k;
  p.a_col = ta ? p.m : 1;
  p.b_row = tb ? 1 : p.n;
  p.b_col = tb ? p.k : 1;
  p.a_at = p.b_at = {0};
  if (b.dims[tb ? 1 : 0] != p.k) invalid("inner extents differ");
  if (y.dims[0] != p.m || y.dims[1] != p.n) invalid("the output does not fit the product");
  check_extents(p);
  return p;
}

// How c of Gemm lies over y: element (i, j) is c[i * row + j * col].
struct Addend {
  bool present = false;
  int64_t row = 0, col = 0;
};

Addend addend_of(const Node& node, const MatrixProducts& p) {
  if (!node.has(2)) return {};
  const ndt_tensor_type& c = node.in(2);
  const int64_t cols = c.rank > 0 ? c.dims[c.rank - 1] : 1;
  const int64_t rows = c.rank > 1 ? c.dims[c.rank - 2] : 1;
  if (c.rank > 2 || (cols != 1 && cols != p.n) || (rows != 1 && rows != p.m)) {
    invalid("c does not broadcast to the product");
  }
  return {true, rows > 1 ? cols : 0, cols > 1 ? 1 : 0};
}

// y = alpha * y + beta * c, row by row so that a row's bits do not depend on its place.
template <typename T>
void scale_and_add(const MatrixProducts& p, double alpha, double beta, const Addend& how,
                   const T* c, T* y) {
  using Sum = wide_t<T>;
  const Sum scale = static_cast<Sum>(alpha), weight = static_cast<Sum>(beta);
  parallel_for(p.m, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, p.n)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   for (int64_t j = 0; j < p.n; ++j) {
                     Sum v = scale * static_cast<Sum>(y[i * p.n + j]);
                     if (how.present) {
                       v += weight * static_cast<Sum>(c[i * how.row + j * how.col]);
                     }
                     y[i * p.n + j] = static_cast<T>(v);
                   }
                 }
               });
}

// f32 with an epilogue that is read from input 2.
class ProductKernel final : public Kernel {
 public:
  enum class Bias { kNone, kRow, kCol, kResidual, kAfter };

  ProductKernel(const Node& node, const MatrixProducts& p)
      : shape_(p), products_(p, as<float>(node.constant(1)), node.constant_id(1), threads()) {
    workspace_bytes = products_.workspace_floats() * sizeof(float);
    if (products_.packed()) packed_inputs = 1 << 1;
  }

  void set_addend(double alpha, double beta, const Addend& addend) {
    alpha_ = alpha;
    beta_ = beta;
    addend_ = addend;
    if (alpha != 1 || (addend.present && beta != 1)) {
      bias_ = Bias::kAfter;
    } else if (addend.present) {
      bias_ = addend.row && addend.col ? Bias::kResidual
              : addend.row             ? Bias::kRow
              : addend.col             ? Bias::kCol
                                       : Bias::kAfter;
    }
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    const float* c = addend_.present ? as<float>(in[2]) : nullptr;
    Epilogue e;
    if (bias_ == Bias::kRow) e.row_bias = c;
    if (bias_ == Bias::kCol) e.col_bias = c;
    if (bias_ == Bias::kResidual) e.residual = c;
    products_.run(as<float>(in[0]), as<float>(in[1]), as<float>(out[0]), e, as<float>(workspace));
    if (bias_ == Bias::kAfter) {
      scale_and_add(shape_, alpha_, beta_, addend_, c, as<float>(out[0]));
    }
  }

 private:
  MatrixProducts shape_;
  PackedProducts products_;
  Bias bias_ = Bias::kNone;
  Addend addend_;
  double alpha_ = 1, beta_ = 1;
};

template <typename T>
std::unique_ptr<Kernel> plain_kernel(const MatrixProducts& p, double alpha, double beta,
                                     const Addend& addend) {
  return kernel([=](const void* const* in, void* const* out, void*) {
    plain_products(p, as<T>(in[0]), as<T>(in[1]), as<T>(out[0]));
    if (alpha != 1 || addend.present) {
      scale_and_add(p, alpha, beta, addend, addend.present ? as<T>(in[2]) : nullptr, as<T>(out[0]));
    }
  });
}

std::unique_ptr<Kernel> product_kernel(const Node& node, const MatrixProducts& p, double alpha,
                                       double beta, const Addend& addend) {
  const ndt_dtype t = node.in(0).dtype;
  for (int i = 1; i < node.inputs(); ++i) {
    if (node.has(i) && node.in(i).dtype != t) unsupported("mixed dtypes");
  }
  if (t != NDT_F32) say_plain_loops(node);
  switch (t) {
    case NDT_F32: {
      auto product = std::make_unique<ProductKernel>(node, p);
      product->set_addend(alpha, beta, addend);
      return product;
    }
    case NDT_F64:
      return plain_kernel<double>(p, alpha, beta, addend);
    case NDT_I32:
      return plain_kernel<int32_t>(p, alpha, beta, addend);
    case NDT_U32:
      return plain_kernel<uint32_t>(p, alpha, beta, addend);
    case NDT_I64:
      return plain_kernel<int64_t>(p, alpha, beta, addend);
    case NDT_U64:
      return plain_kernel<uint64_t>(p, alpha, beta, addend);
    default:
      unsupported("no product of dtype ", name_of(t));
  }
}

std::unique_ptr<Kernel> make_matmul(const Node& node) {
  if (is_half(node.in(0).dtype)) return by_way_of_f32(node, make_matmul);
  return product_kernel(node, matmul_products(node), 1, 1, {});
}

std::unique_ptr<Kernel> make_gemm(const Node& node) {
  if (is_half(node.in(0).dtype)) return by_way_of_f32(node, make_gemm);
  const MatrixProducts p = gemm_product(node);
  return product_kernel(node, p, node.f("alpha", 1), node.f("beta", 1), addend_of(node, p));
}

const Registered registered{
    {"Gemm", make_gemm},
    {"MatMul", make_matmul},
};

}  // namespace
}  // namespace ndtrain::cpu
