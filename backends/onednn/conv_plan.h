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
  ConvPorts ports = {};
  bool weights_change = false;  // from run to run

  Convolution filled(int64_t images, const Desc& weights) const;
  PrimitivePtr make(int64_t images, const Desc& weights) const;
  PrimitivePtr make(int64_t images) const;  // weights as the library likes
};

// Shape, types and layouts, which are the caller's to judge, of a node with a convolution's
// attributes.
AskedConv ask(const Node& node, const ndt_tensor_type& x, const ndt_tensor_type& w,
              const ndt_tensor_type& y);
// The same of a convolution, with bias, residual and activation.
AskedConv ask(const Node& node, ConvPorts ports);

// Throws Unsupported unless the library can take the weights as they come.
void check_changing(const AskedConv& a);

// The node's constant weights, lying as `wanted`.
std::shared_ptr<const Packed> weights_of(const Node& node, const AskedConv& a, const Desc& wanted);

// The plan's kernel, for which weights lying as `wanted` are added as port 1.
std::unique_ptr<Kernel> kernel_with_weights(const Node& node, const AskedConv& a,
                                            const Desc& wanted, Sliced::Plan plan);

std::unique_ptr<Kernel> conv_kernel(const ndt_device& device, const Node& node, AskedConv asked);

}  // namespace ndtrain::onednn
