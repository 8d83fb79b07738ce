// Matrix products of any dtype, in batches: what Gemm and MatMul share.
//
// f32 goes through the packed product, so that a row of the result has the same bits whatever the
// other rows are. f64 goes to OpenBLAS, in blocks of rows that do not depend on the number of
// threads; the other dtypes take plain loops.
#pragma once

#include <memory>
#include <vector>

#include "backends/cpu/gemm/packed_gemm.h"
#include "backends/cpu/kernels/kernel.h"

namespace ndtrain::cpu {

// Element (i, l) of a matrix of A is at i * a_row + l * a_col, (l, j) of B at l * b_row + j *
// b_col. Product p multiplies the matrices that begin at a_at[p] and b_at[p] and writes y + p * m *
// n.
struct MatrixProducts {
  int64_t m, n, k;
  int64_t a_row, a_col, b_row, b_col;
  std::vector<int64_t> a_at, b_at;

  int64_t products() const { return static_cast<int64_t>(a_at.size()); }
  bool one_b() const;  // every product has the same B
  void stack();        // products that are rows of one larger product become that
};

// The f32 form. A constant B is packed once. Immutable.
class PackedProducts {
 public:
  // `b` is null, or the constant B with its identity.
  PackedProducts(MatrixProducts products, const float* b, uint64_t b_id, int slots);

  bool packed() const { return packed_ != nullptr; }
  size_t workspace_floats() const;
  // The epilogue's row_bias and residual go on over the products, as y does.
  void run(const float* a, const float* b, float* y, const Epilogue& epilogue,
           float* workspace) const;

 private:
  void pack(const float* b, float* to) const;
  void run_task(int64_t task, const float* a, const float* b, float* y, const Epilogue& epilogue,
                float* scratch) const;

  MatrixProducts p_;
  std::shared_ptr<const std::byte[]> packed_;
  int64_t packs_, b_floats_;  // packed B: how many, floats of each
  int64_t row_chunks_ = 1, col_chunks_ = 1;
  int64_t rows_floats_ = 0, partial_floats_ = 0;  // scratch
  int slots_;
};

// The other dtypes.
template <typename T>
void plain_products(const MatrixProducts& p, const T* a, const T* b, T* y);

}  // namespace ndtrain::cpu
