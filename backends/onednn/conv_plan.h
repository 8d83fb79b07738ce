// A convolution between what a node asks and a kernel: what the library is given, which of its
// algorithms, in slices of which sizes.
#pragma once

#include <memory>
#include <vector>

#include "backends/onednn/conv_shape.h"
#include "backends/onednn/kernel.h"
#include "backends/onednn/sliced.h"
#include "backends/onednn/weights.h"

namespace ndtrain::onednn {

// Where a kind of convolution has its ports; -1: not there.
struct ConvPorts {
  int weights = 1, bias = 2, residual = 3;
};

// What the library is asked for; `images` and how the weights lie are left open.
struct AskedConv {
  ConvShape shape;
  Convolution how;
  ndt_tensor_type x, y;
  ndt_dtype weights_dtype;
  Layout from, to;
  ConvPorts ports;

  PrimitivePtr make(int64_t images, const Desc& weights) const;
  PrimitivePtr make(int64_t images) const;  // weights as the library likes
};

// Shape, types, layouts, bias, residual and activation; the layouts are the caller's to judge.
AskedConv ask(const Node& node, ConvPorts ports);

// The node's constant weights, lying as `wanted`.
std::shared_ptr<const Packed> weights_of(const Node& node, const AskedConv& a, const Desc& wanted);

std::unique_ptr<Kernel> conv_kernel(const ndt_device& device, const Node& node, AskedConv asked);

}  // namespace ndtrain::onednn
