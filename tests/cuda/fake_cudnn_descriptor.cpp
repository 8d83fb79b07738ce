#include "tests/cuda/fake_cudnn_descriptor.h"

#include <algorithm>

namespace ndtrain::fake {
namespace {

// What descriptors of a type are made of. `most` 1: a single value.
struct Spec {
  int descriptor, name;
  std::vector<int> types;
  int64_t most = 1;
  bool required = true;
};

constexpr int kDescriptor = CUDNN_TYPE_BACKEND_DESCRIPTOR;
constexpr int64_t kMany = 1024;

std::vector<Spec> conv_specs(int type, int first) {  // alpha, beta, descriptor and three tensors
  std::vector<Spec> specs;
  for (int i = 0; i < 2; ++i) {
    specs.push_back({type, first + i, {CUDNN_TYPE_FLOAT, CUDNN_TYPE_DOUBLE}});
  }
  for (int i = 2; i < 6; ++i) specs.push_back({type, first + i, {kDescriptor}});
  return specs;
}

std::vector<Spec> operation_specs() {
  constexpr int kPointwise = CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
  constexpr int kMatmul = CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
  constexpr int kReduction = CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR;
  return {
      {kPointwise, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, {kDescriptor}},
      {kPointwise, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, {kDescriptor}},
      {kPointwise, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, {kDescriptor}, 1, false},
      {kPointwise, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, {kDescriptor}},
      {kMatmul, CUDNN_ATTR_OPERATION_MATMUL_DESC, {kDescriptor}},
      {kMatmul, CUDNN_ATTR_OPERATION_MATMUL_ADESC, {kDescriptor}},
      {kMatmul, CUDNN_ATTR_OPERATION_MATMUL_BDESC, {kDescriptor}},
      {kMatmul, CUDNN_ATTR_OPERATION_MATMUL_CDESC, {kDescriptor}},
      {kReduction, CUDNN_ATTR_OPERATION_REDUCTION_DESC, {kDescriptor}},
      {kReduction, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, {kDescriptor}},
      {kReduction, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, {kDescriptor}},
  };
}

std::vector<Spec> setting_specs() {
  constexpr int kTensor = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  constexpr int kConv = CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR;
  constexpr int kPointwise = CUDNN_BACKEND_POINTWISE_DESCRIPTOR;
  constexpr int kReduction = CUDNN_BACKEND_REDUCTION_DESCRIPTOR;
  return {
      {kTensor, CUDNN_ATTR_TENSOR_DATA_TYPE, {CUDNN_TYPE_DATA_TYPE}},
      {kTensor, CUDNN_ATTR_TENSOR_DIMENSIONS, {CUDNN_TYPE_INT64}, CUDNN_DIM_MAX},
      {kTensor, CUDNN_ATTR_TENSOR_STRIDES, {CUDNN_TYPE_INT64}, CUDNN_DIM_MAX},
      {kTensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, {CUDNN_TYPE_INT64}},
      {kTensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {CUDNN_TYPE_INT64}},
      {kTensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, {CUDNN_TYPE_BOOLEAN}, 1, false},
      {kTensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, {CUDNN_TYPE_BOOLEAN}, 1, false},
      {kConv, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, {CUDNN_TYPE_DATA_TYPE}},
      {kConv, CUDNN_ATTR_CONVOLUTION_CONV_MODE, {CUDNN_TYPE_CONVOLUTION_MODE}},
      {kConv, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {CUDNN_TYPE_INT64}},
      {kConv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {CUDNN_TYPE_INT64}, CUDNN_DIM_MAX},
      {kConv, CUDNN_ATTR_CONVOLUTION_DILATIONS, {CUDNN_TYPE_INT64}, CUDNN_DIM_MAX},
      {kConv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {CUDNN_TYPE_INT64}, CUDNN_DIM_MAX},
      {kConv, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {CUDNN_TYPE_INT64}, CUDNN_DIM_MAX},
      {kPointwise, CUDNN_ATTR_POINTWISE_MODE, {CUDNN_TYPE_POINTWISE_MODE}},
      {kPointwise, CUDNN_ATTR_POINTWISE_MATH_PREC, {CUDNN_TYPE_DATA_TYPE}},
      {kPointwise, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, {CUDNN_TYPE_DOUBLE}, 1, false},
      {kPointwise, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, {CUDNN_TYPE_DOUBLE}, 1, false},
      {CUDNN_BACKEND_MATMUL_DESCRIPTOR, CUDNN_ATTR_MATMUL_COMP_TYPE, {CUDNN_TYPE_DATA_TYPE}},
      {kReduction, CUDNN_ATTR_REDUCTION_OPERATOR, {CUDNN_TYPE_REDUCTION_OPERATOR_TYPE}},
      {kReduction, CUDNN_ATTR_REDUCTION_COMP_TYPE, {CUDNN_TYPE_DATA_TYPE}},
  };
}

std::vector<Spec> running_specs() {
  constexpr int kGraph = CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
  constexpr int kHeuristics = CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
  constexpr int kEngine = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
  constexpr int kKnob = CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR;
  constexpr int kConfig = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
  constexpr int kPlan = CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
  constexpr int kPack = CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
  return {
      {kGraph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, {CUDNN_TYPE_HANDLE}},
      {kGraph, CUDNN_ATTR_OPERATIONGRAPH_OPS, {kDescriptor}, kMany},
      {kHeuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, {kDescriptor}},
      {kHeuristics, CUDNN_ATTR_ENGINEHEUR_MODE, {CUDNN_TYPE_HEUR_MODE}},
      {kEngine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, {kDescriptor}},
      {kEngine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, {CUDNN_TYPE_INT64}},
      {kKnob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, {CUDNN_TYPE_KNOB_TYPE}},
      {kKnob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, {CUDNN_TYPE_INT64}},
      {kConfig, CUDNN_ATTR_ENGINECFG_ENGINE, {kDescriptor}},
      {kConfig, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, {kDescriptor}, CUDNN_KNOB_TYPE_COUNTS, false},
      {kPlan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, {CUDNN_TYPE_HANDLE}, 1, false},
      {kPlan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, {kDescriptor}},
      {kPack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, {CUDNN_TYPE_INT64}, kMany},
      {kPack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, {CUDNN_TYPE_VOID_PTR}, kMany},
      {kPack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {CUDNN_TYPE_VOID_PTR}},
  };
}

const std::vector<Spec>& specs() {
  static const std::vector<Spec> all = [] {
    std::vector<Spec> list;
    for (const auto& part :
         {setting_specs(), operation_specs(), running_specs(),
          conv_specs(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA),
          conv_specs(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA),
          conv_specs(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA)}) {
      list.insert(list.end(), part.begin(), part.end());
    }
    return list;
  }();
  return all;
}

std::string text(int number) { return std::to_string(number); }

}  // namespace

void refuse(cudnnStatus_t status, const std::string& why) { throw DnnRefusal{status, why}; }

size_t size_of_type(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return sizeof(void*);
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    default:
      return 4;  // float, int32 and enumerations
  }
}

void check_attribute(const DnnDescriptor& d, cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type, int64_t count) {
  const auto spec = std::ranges::find_if(
      specs(), [&](const Spec& s) { return s.descriptor == d.type && s.name == name; });
  if (spec == specs().end()) {
    refuse(CUDNN_STATUS_BAD_PARAM,
           "descriptor " + text(d.type) + " has no attribute " + text(name));
  }
  if (std::ranges::find(spec->types, type) == spec->types.end()) {
    refuse(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
           "attribute " + text(name) + " is not of type " + text(type));
  }
  if (count < 1 || count > spec->most) {
    refuse(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND,
           "attribute " + text(name) + " of " + std::to_string(count) + " elements");
  }
}

void check_complete(const DnnDescriptor& d) {
  for (const Spec& s : specs()) {
    if (s.descriptor != d.type || !s.required || d.has(s.name)) continue;
    refuse(CUDNN_STATUS_BAD_PARAM,
           "descriptor " + text(d.type) + " lacks attribute " + text(s.name));
  }
}

DnnTensor::DnnTensor(const DnnDescriptor& d) {
  if (d.type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
    refuse(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "a tensor is descriptor " + text(d.type));
  }
  uid = d.value<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  type = d.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  dims = d.list<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  strides = d.list<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  const auto is = [&](int name) { return d.has(name) && d.value<char>(name) != 0; };
  is_virtual = is(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  by_value = is(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
}

int64_t element_bytes(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return 8;
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_INT32:
      return 4;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return 2;
    case CUDNN_DATA_INT8:
      return 1;
    default:
      refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "data type " + text(type));
  }
}

int64_t DnnTensor::count() const {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

size_t DnnTensor::bytes() const {
  int64_t last = 0;
  for (size_t d = 0; d < dims.size(); ++d) last += (dims[d] - 1) * strides[d];
  return static_cast<size_t>((last + 1) * element_bytes(type));
}

}  // namespace ndtrain::fake
