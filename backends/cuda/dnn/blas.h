// A matrix product by cuBLASLt.
#pragma once

#include <string>

#include "backends/cuda/device.h"
#include "backends/cuda/dnn/product.h"
#include "backends/plugin/node.h"

namespace ndtrain::cuda {

// What follows the bias. cuBLASLt's Gelu is the tanh approximation.
enum class Activation { kNone, kRelu, kGeluTanh };

// y = activation(alpha a b + beta c + bias), the bias on every row; a stack of rank 0 or 1, one
// dtype (f32, f16, bf16 with f32 sums; f64), y and c row-major without gaps.
struct BlasProduct {
  ProductShape shape;
  ndt_dtype dtype = NDT_F32;
  double alpha = 1, beta = 0;
  bool bias = false;  // n values
  Activation activation = Activation::kNone;
  size_t alignment = 16;  // of all operands, in bytes
  // A row's bits must not depend on how many there are: the algorithm is chosen for this many rows,
  // and for a stack of fixed length.
  int64_t usual_rows = 1;
};

class Blas {
 public:
  // Throws Unsupported when cuBLASLt has no algorithm for it.
  Blas(const ndt_device& device, const BlasProduct& product);

  // c null: beta scales what y holds. workspace: 256-byte aligned.
  void run(ndt_stream& stream, const void* a, const void* b, const void* c, const void* bias,
           void* y, void* workspace) const;
  size_t workspace_bytes() const { return workspace_bytes_; }

 private:
  BlasProduct product_;
  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatrixLayoutOpaque_t a_, b_, y_;
  cublasLtMatmulAlgo_t algorithm_;
  size_t workspace_bytes_ = 0;
};

// Throws Unsupported when cuBLASLt has no algorithm for it. Measures nothing.
void check_available(const ndt_device& device, const BlasProduct& product);

}  // namespace ndtrain::cuda
