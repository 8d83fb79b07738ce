// Graphs of the fake cuDNN: read from descriptors, checked, computed.
#pragma once

#include "tests/cuda/fake_cudnn_descriptor.h"

namespace ndtrain::fake {

struct DnnOperation {
  enum class Kind { kForward, kInput, kWeight, kPointwise, kMatmul, kReduction } kind;
  std::vector<DnnTensor> in;  // convolutions: those of x, w, y that are read, in this order
  DnnTensor out;
  DnnPtr settings;  // the convolution, pointwise, … descriptor
};

// Refuses dims and types that do not fit one another.
DnnOperation read_operation(const DnnPtr& d);

struct DnnGraph {
  std::vector<DnnOperation> operations;  // each after those whose results it reads
  std::vector<DnnTensor> tensors;        // all, each once
};

// Refuses what is no graph: virtual tensors that nobody writes, two writers, circles.
DnnGraph read_graph(const DnnDescriptor& d);
DnnPattern pattern_of(const DnnGraph& g);

// `at`: addresses by uid, of all that are not virtual. `tf32`: f32 products as tensor cores round
// what they multiply.
void compute(const DnnGraph& g, const std::map<int64_t, void*>& at,
             const std::map<int64_t, double>& values, bool tf32);

}  // namespace ndtrain::fake
