// Single numbers of any float dtype: for scales, biases and statistics, whose dtype need not be
// that of the data.
#pragma once

#include "backends/cpu/kernels/kernel.h"

namespace ndtrain::cpu {

template <typename W>
W number(const void* data, ndt_dtype t, int64_t i) {
  switch (t) {
    case NDT_F64:
      return static_cast<W>(as<double>(data)[i]);
    case NDT_F16:
      return static_cast<W>(static_cast<float>(as<F16>(data)[i]));
    case NDT_BF16:
      return static_cast<W>(static_cast<float>(as<BF16>(data)[i]));
    default:
      return static_cast<W>(as<float>(data)[i]);
  }
}

template <typename W>
void set_number(void* data, ndt_dtype t, int64_t i, W value) {
  switch (t) {
    case NDT_F64:
      as<double>(data)[i] = static_cast<double>(value);
      return;
    case NDT_F16:
      as<F16>(data)[i] = F16(static_cast<float>(value));
      return;
    case NDT_BF16:
      as<BF16>(data)[i] = BF16(static_cast<float>(value));
      return;
    default:
      as<float>(data)[i] = static_cast<float>(value);
  }
}

}  // namespace ndtrain::cpu
