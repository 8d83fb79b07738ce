// A convolution as a node asks for it and as cuDNN is told of it.
#pragma once

#include "backends/cuda/dnn/choose.h"
#include "backends/plugin/node.h"

namespace ndtrain::cuda {

using plugin::Node;

// x, w and y stand for dx, dw and dy where the pass makes or takes those. One spatial dim becomes
// two, of which the first is 1: cuDNN begins at two.
struct AskedConv {
  ConvPass pass = ConvPass::kForward;
  ConvWindow window;
  int64_t groups = 1;
  ndt_tensor_type x, w, y;  // as they lie

  ndt_dtype compute() const {
    return x.dtype == NDT_F64 ? NDT_F64 : x.dtype == NDT_I8 ? NDT_I32 : NDT_F32;
  }
};

// The types as ports have them, row-major or channels-last. Throws Unsupported for what cuDNN is
// not asked: no float, rank beyond 5, nothing in it.
AskedConv ask_conv(ConvPass pass, const Node& node, const ndt_tensor_type& x,
                   const ndt_tensor_type& w, const ndt_tensor_type& y);

ndt_tensor_type with_two_spatial_dims(const ndt_tensor_type& t);

// f64 has no kernels for channels-last; whatever has no engine there is tried row-major.
std::vector<bool> layouts_to_try(const AskedConv& a);  // true: channels-last
ndt_tensor_type laid(const ndt_tensor_type& t, bool last, int64_t images);
ndt_tensor_type laid(const ndt_tensor_type& t, bool last);

// The convolution and nothing else. Bound: x, w, y, whichever of them is made.
Graph plain_graph(const AskedConv& a, bool last, int64_t images);

// What a layer is, but for its batch: "conv f16 64>128 56x56>28x28 3x3 …".
std::string key_of(const AskedConv& a, bool last);

}  // namespace ndtrain::cuda
