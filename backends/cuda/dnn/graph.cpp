#include "backends/cuda/dnn/graph.h"

#include <cmath>

#include "backends/plugin/node.h"

namespace ndtrain::cuda {
namespace {

constexpr int64_t kAlignment = 16;

struct ConvNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, how, x, w, y;
};

constexpr ConvNames kForward = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
constexpr ConvNames kInput = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
constexpr ConvNames kWeight = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};

const ConvNames& names(ConvPass pass) {
  return pass == ConvPass::kForward ? kForward : pass == ConvPass::kInput ? kInput : kWeight;
}

Descriptor conv_descriptor(const ConvWindow& w, ndt_dtype compute) {
  Descriptor d(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  d.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, data_type(compute));
  d.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  d.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<int64_t>(w.strides.size()));
  d.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, w.strides);
  d.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, w.dilations);
  d.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, w.begin);
  d.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, w.end);
  d.finalize();
  return d;
}

Descriptor pointwise_descriptor(cudnnPointwiseMode_t mode, ndt_dtype compute) {
  Descriptor d(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  d.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  d.set(CUDNN_ATTR_POINTWISE_MATH_PREC, data_type(compute));
  return d;
}

}  // namespace

cudnnDataType_t data_type(ndt_dtype t) {
  switch (t) {
    case NDT_F32:
      return CUDNN_DATA_FLOAT;
    case NDT_F16:
      return CUDNN_DATA_HALF;
    case NDT_BF16:
      return CUDNN_DATA_BFLOAT16;
    case NDT_F64:
      return CUDNN_DATA_DOUBLE;
    case NDT_I8:
      return CUDNN_DATA_INT8;
    case NDT_I32:
      return CUDNN_DATA_INT32;
    default:
      plugin::unsupported("cuDNN is not used for ", plugin::name_of(t));
  }
}

Graph::Uid Graph::add(const ndt_tensor_type& t, cudnnBackendAttributeName_t* property) {
  Descriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const auto uid = static_cast<Uid>(tensors_.size()) + 1;
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(t.dtype));
  d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, t.rank, t.dims);
  d.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, t.rank, t.strides);
  d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, uid);
  d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  if (property) d.set(*property, true);
  d.finalize();
  tensors_.push_back(std::move(d));
  return uid;
}

Graph::Uid Graph::bound(const ndt_tensor_type& t) {
  bound_types_.push_back(t);
  uids_.push_back(add(t, nullptr));
  return uids_.back();
}

Graph::Uid Graph::between(const ndt_tensor_type& t) {
  cudnnBackendAttributeName_t is_virtual = CUDNN_ATTR_TENSOR_IS_VIRTUAL;
  return add(t, &is_virtual);
}

Graph::Uid Graph::scalar(float value, int rank) {
  ndt_tensor_type t{.dtype = NDT_F32, .rank = rank, .dims = {}, .strides = {}, .channel_block = 0};
  for (int d = 0; d < rank; ++d) t.dims[d] = t.strides[d] = 1;
  cudnnBackendAttributeName_t by_value = CUDNN_ATTR_TENSOR_IS_BY_VALUE;
  scalars_.push_back(value);
  scalar_uids_.push_back(add(t, &by_value));
  return scalar_uids_.back();
}

Descriptor& Graph::operation(cudnnBackendDescriptorType_t type) {
  operations_.emplace_back(type);
  return operations_.back();
}

void Graph::convolution(ConvPass pass, const ConvWindow& window, ndt_dtype compute, Uid x, Uid w,
                        Uid y) {
  const ConvNames& n = names(pass);
  settings_.push_back(conv_descriptor(window, compute));
  Descriptor& op = operation(n.type);
  op.set(n.how, settings_.back());
  op.set(n.x, tensor(x));
  op.set(n.w, tensor(w));
  op.set(n.y, tensor(y));
  if (compute == NDT_F64) {
    op.set(n.alpha, 1.0);
    op.set(n.beta, 0.0);
  } else {
    op.set(n.alpha, 1.0F);
    op.set(n.beta, 0.0F);
  }
  op.finalize();
}

void Graph::pointwise(Descriptor how, Uid x, Uid b, Uid y) {
  how.finalize();
  settings_.push_back(std::move(how));
  Descriptor& op = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, settings_.back());
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensor(x));
  if (b != kNone) op.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, tensor(b));
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensor(y));
  op.finalize();
}

void Graph::pointwise(cudnnPointwiseMode_t mode, ndt_dtype compute, Uid x, Uid b, Uid y) {
  pointwise(pointwise_descriptor(mode, compute), x, b, y);
}

void Graph::relu(ndt_dtype compute, Uid x, Uid y, double upper) {
  Descriptor how = pointwise_descriptor(CUDNN_POINTWISE_RELU_FWD, compute);
  if (std::isfinite(upper)) how.set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, upper);
  pointwise(std::move(how), x, kNone, y);
}

void Graph::matmul(Uid a, Uid b, Uid c) {
  Descriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  how.finalize();
  settings_.push_back(std::move(how));
  Descriptor& op = operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, settings_.back());
  op.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensor(a));
  op.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, tensor(b));
  op.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, tensor(c));
  op.finalize();
}

void Graph::reduce(cudnnReduceTensorOp_t mode, Uid x, Uid y) {
  Descriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
  how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  how.finalize();
  settings_.push_back(std::move(how));
  Descriptor& op = operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, settings_.back());
  op.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, tensor(x));
  op.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, tensor(y));
  op.finalize();
}

void Graph::finalize(cudnnHandle_t handle) {
  uids_.insert(uids_.end(), scalar_uids_.begin(), scalar_uids_.end());
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_);
  graph_.finalize();
}

std::vector<void*> Graph::addresses(void* const* bound) const {
  std::vector<void*> all(bound, bound + bound_types_.size());
  for (const float& value : scalars_) all.push_back(const_cast<float*>(&value));
  return all;
}

}  // namespace ndtrain::cuda
