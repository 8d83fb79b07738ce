// Matrix products of any dtype by a plain kernel: those that no library has (integers, sums without
// terms, bytes with zero points), and the addend of a Gemm laid out as the library wants it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "framework/runtime/backend_abi.h"

namespace ndtrain::cuda {

// y[p] = a[p] b[p], m x k times k x n, for every product p of a stack. Steps are in elements; y is
// row-major without gaps.
struct ProductShape {
  int64_t m = 1, n = 1, k = 1;
  int64_t a_row = 0, a_col = 1, b_row = 0, b_col = 1;
  // How the stack lies, outermost first: a step of 0 where an operand is the same for all.
  int rank = 0;
  int64_t extent[NDT_MAX_RANK] = {}, a_step[NDT_MAX_RANK] = {}, b_step[NDT_MAX_RANK] = {};

  int64_t products() const {
    int64_t all = 1;
    for (int d = 0; d < rank; ++d) all *= extent[d];
    return all;
  }
};

// One value, or one per row or column: element (i, j) has data[i * row + j * col]. Null: none.
struct Spread {
  const void* data = nullptr;
  ndt_dtype dtype = NDT_F32;
  int64_t row = 0, col = 0;
};

struct PlainProduct {
  ProductShape shape;
  ndt_dtype a = NDT_F32, b = NDT_F32, y = NDT_F32;
  double alpha = 1, beta = 1;
  // y = alpha * a b + beta * c.
  void run(const void* a_data, const void* b_data, Spread c, void* y_data,
           cudaStream_t stream) const;
};

// y = beta * c, m x n.
void spread(Spread c, double beta, int64_t m, int64_t n, ndt_dtype dtype, void* y,
            cudaStream_t stream);

// Sums of (a - a_zero) (b - b_zero) of bytes, as they are for i32; for bytes times a_scale *
// b_scale / y_scale in f32, rounded half to even, plus y_zero, held within the dtype.
struct ByteProduct {
  ProductShape shape;
  ndt_dtype a = NDT_U8, b = NDT_U8, y = NDT_I32;
  struct Operands {
    const void *a, *b;
    Spread a_zero, b_zero, a_scale, b_scale, y_scale, y_zero;
    void* y;
  };
  void run(const Operands& operands, cudaStream_t stream) const;
};

}  // namespace ndtrain::cuda
