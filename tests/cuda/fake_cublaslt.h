// cuBLASLt without a device: descriptors are kept and checked, products computed by plain loops. It
// has three algorithms that sum in blocks of different length, so that their results differ in the
// last bits, and suggests them in an order that hangs on the size of the product, as the real one
// does; where sums may be split it suggests a fourth first, whose bits hang on the number of
// columns.
#pragma once

#include <cublasLt.h>

#include <cstdint>

namespace ndtrain::fake {

struct Matrix {
  cudaDataType type;
  int32_t order = CUBLASLT_ORDER_COL, batches = 1;
  uint64_t rows, columns;
  int64_t ld, step = 0;
};

struct Operation {
  cublasComputeType_t compute;
  cudaDataType scale;
  int32_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};

struct Preference {
  uint64_t workspace = 0;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};
};

struct Algorithm {
  int32_t id;
  uint32_t split, workspace;
};

struct Product {
  Operation operation;
  Matrix a, b, c, d;
  Algorithm algorithm;
  double alpha, beta;
  const void *a_data, *b_data, *c_data;
  void* d_data;
};

bool is_biased(uint32_t epilogue);

// Empty when they belong together, else what does not fit.
const char* misfit(const Operation& o, const Matrix& a, const Matrix& b, const Matrix& c,
                   const Matrix& d);
void compute(const Product& p);

}  // namespace ndtrain::fake
