// Softmax, LogSoftmax, their gradients, and SoftmaxCrossEntropy: rows, one warp each, or one block
// where they are long. Which one depends on the row's length alone.
#pragma once

#include "backends/cuda/fault.h"
#include "backends/cuda/kernels/number.h"

namespace ndtrain::cuda {

// Row r begins at r / inner * n * inner + r % inner; its elements are `inner` apart.
struct Lines {
  int64_t rows = 0, n = 0, inner = 1;
};

enum class Softmax { kSoftmax, kLogSoftmax, kSoftmaxGrad, kLogSoftmaxGrad };

// a is x, or dy; b is null, or y. y may lie over either.
void softmax(Softmax kind, ndt_dtype t, const Lines& lines, const void* a, const void* b, void* y,
             cudaStream_t stream);

struct CrossEntropy {
  int64_t rows = 0, classes = 0, of_row = 1;  // labels of a row
  double smoothing = 0;
  ndt_dtype t = NDT_F32;

  size_t workspace() const { return static_cast<size_t>(rows) * sizeof(double); }
  // A label of weight 0 is not looked at, nor is a row that has no others. A row with a label that
  // is none of the classes gives NaN and goes into `fault`.
  void loss(const void* x, const int64_t* labels, const float* weights, void* losses, void* loss,
            Fault* fault, cudaStream_t stream) const;
  void gradient(const void* dloss, const void* x, const int64_t* labels, const float* weights,
                void* dx, Fault* fault, cudaStream_t stream) const;
};

}  // namespace ndtrain::cuda
