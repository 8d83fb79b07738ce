#include "backends/cuda/dnn/product_shape.h"

#include <algorithm>

#include "backends/cuda/layout.h"

namespace ndtrain::cuda {
namespace {

// Elements between the matrices of `t` along dim d of a stack of `rank` dims.
int64_t step_along(const ndt_tensor_type& t, int rank, int d) {
  const int own = std::max(0, t.rank - 2), of = d - (rank - own);
  if (of < 0 || t.dims[of] == 1) return 0;
  return count(t, of + 1);
}

// Neighbouring dims of the stack become one where both operands go on evenly.
void shorten(ProductShape& s) {
  ProductShape from = s;
  s.rank = 0;
  for (int d = 0; d < from.rank; ++d) {
    if (from.extent[d] == 1) continue;
    const int last = s.rank - 1;
    if (last >= 0 && s.a_step[last] == from.a_step[d] * from.extent[d] &&
        s.b_step[last] == from.b_step[d] * from.extent[d]) {
      s.extent[last] *= from.extent[d];
      s.a_step[last] = from.a_step[d];
      s.b_step[last] = from.b_step[d];
      continue;
    }
    s.extent[s.rank] = from.extent[d];
    s.a_step[s.rank] = from.a_step[d];
    s.b_step[s.rank++] = from.b_step[d];
  }
}

void join_rows(ProductShape& s) {
  if (s.rank != 1 || s.b_step[0] != 0 || s.a_step[0] != s.m * s.k) return;
  s.m *= s.extent[0];
  s.rank = 0;
}

}  // namespace

ProductShape gemm_shape(const Node& node) {
  const ndt_tensor_type &a = node.in(0), &b = node.in(1), &y = node.out();
  if (a.rank != 2 || b.rank != 2 || y.rank != 2) invalid("not matrices");
  const bool ta = node.i("transA") != 0, tb = node.i("transB") != 0;
  ProductShape s{.m = a.dims[ta ? 1 : 0], .n = b.dims[tb ? 0 : 1], .k = a.dims[ta ? 0 : 1]};
  s.a_row = ta ? 1 : s.k;
  s.a_col = ta ? s.m : 1;
  s.b_row = tb ? 1 : s.n;
  s.b_col = tb ? s.k : 1;
  if (b.dims[tb ? 1 : 0] != s.k) invalid("inner extents differ");
  if (y.dims[0] != s.m || y.dims[1] != s.n) invalid("the output does not fit the product");
  return s;
}

ProductShape matmul_shape(const Node& node, int a_port, int b_port, Rows rows) {
  const ndt_tensor_type &a = node.in(a_port), &b = node.in(b_port), &y = node.out();
  if (a.rank < 1 || b.rank < 1) invalid("scalars do not multiply");
  ProductShape s{.m = a.rank > 1 ? a.dims[a.rank - 2] : 1,
                 .n = b.rank > 1 ? b.dims[b.rank - 1] : 1,
                 .k = a.dims[a.rank - 1]};
  if ((b.rank > 1 ? b.dims[b.rank - 2] : b.dims[0]) != s.k) invalid("inner extents differ");
  s.a_row = s.k;
  s.b_row = s.n;
  s.rank = std::max({0, a.rank - 2, b.rank - 2});
  if (s.rank > y.rank) invalid("the output does not fit the product");
  for (int d = 0; d < s.rank; ++d) {
    s.extent[d] = y.dims[d];
    s.a_step[d] = step_along(a, s.rank, d);
    s.b_step[d] = step_along(b, s.rank, d);
  }
  if (s.products() * s.m * s.n != count(y)) invalid("the output does not fit the product");
  shorten(s);
  if (rows == Rows::kJoined) join_rows(s);
  if (rows == Rows::kApart && s.rank == 0) s.extent[s.rank++] = 1;
  return s;
}

void need_row_major(const Node& node) {
  for (int i = 0; i < node.inputs(); ++i) {
    if (node.has(i) && !is_row_major(node.in(i))) unsupported("input ", i, " is not row-major");
  }
  if (!is_row_major(node.out())) unsupported("its output is not row-major");
}

}  // namespace ndtrain::cuda
