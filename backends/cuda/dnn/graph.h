// A graph of cuDNN operations over numbered tensors.
#pragma once

#include <deque>
#include <limits>
#include <map>
#include <vector>

#include "backends/cuda/dnn/descriptor.h"
#include "framework/runtime/backend_abi.h"

namespace ndtrain::cuda {

cudnnDataType_t data_type(ndt_dtype t);  // throws Unsupported for what cuDNN does not have

// A convolution's window, a value per spatial dim.
struct ConvWindow {
  std::vector<int64_t> strides, dilations, begin, end;  // begin, end: padding
};

enum class ConvPass { kForward, kInput, kWeight };  // y; dx from dy; dw from dy

class Graph {
 public:
  using Uid = int64_t;
  static constexpr Uid kNone = 0;

  // Tensors that run() is given the addresses of, in the order in which they were made here.
  Uid bound(const ndt_tensor_type& t);
  // What one operation hands to another.
  Uid between(const ndt_tensor_type& t);
  // A value for all elements of a tensor of this rank, part of the graph.
  Uid scalar(float value, int rank);

  // x, w and y stand for dx, dw and dy where the pass makes or takes those.
  void convolution(ConvPass pass, const ConvWindow& window, ndt_dtype compute, Uid x, Uid w, Uid y);
  // y = mode(x, b), in f32; b: kNone for functions of one tensor.
  void pointwise(cudnnPointwiseMode_t mode, ndt_dtype compute, Uid x, Uid b, Uid y);
  void relu(ndt_dtype compute, Uid x, Uid y, double upper);  // upper: infinite, or the clip above
  void matmul(Uid a, Uid b, Uid c);                          // in f32
  void reduce(cudnnReduceTensorOp_t mode, Uid x, Uid y);     // in f32, over dims that y has as 1

  void finalize(cudnnHandle_t handle);
  const Descriptor& descriptor() const { return graph_; }

  const std::vector<ndt_tensor_type>& bound_types() const { return bound_types_; }
  // What a variant pack holds: the tensors that are bound, then the scalars.
  const std::vector<Uid>& uids() const { return uids_; }
  std::vector<void*> addresses(void* const* bound) const;

 private:
  Uid add(const ndt_tensor_type& t, cudnnBackendAttributeName_t* property);
  const Descriptor& tensor(Uid uid) const { return tensors_[static_cast<size_t>(uid - 1)]; }
  Descriptor& operation(cudnnBackendDescriptorType_t type);
  void pointwise(Descriptor how, Uid x, Uid b, Uid y);

  Descriptor graph_{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};
  std::vector<Descriptor> tensors_, operations_, settings_;
  std::vector<ndt_tensor_type> bound_types_;
  std::vector<Uid> uids_, scalar_uids_;
  std::deque<float> scalars_;  // cuDNN is given their addresses
};

}  // namespace ndtrain::cuda
