// Convolution and its gradients in plain loops, for what the fast kernels leave out: f64, and three
// spatial dims. Sums in a fixed order.
#pragma once

#include "backends/cpu/kernels/conv_geometry.h"

namespace ndtrain::cpu {

struct Activation {
  bool clamp = false;
  double low = 0, high = 0;
};

template <typename T>
void conv_plain(const ConvGeometry& g, const T* x, const T* w, const T* bias, const T* residual,
                const Activation& activation, T* y);
template <typename T>
void conv_plain_grad_input(const ConvGeometry& g, const T* dy, const T* w, T* dx);
template <typename T>
void conv_plain_grad_weight(const ConvGeometry& g, const T* x, const T* dy, T* dw);

}  // namespace ndtrain::cpu
