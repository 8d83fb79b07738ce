// How a tensor lies. The plugin reads and writes two layouts without gaps: row-major, and
// channels-last (N H W C in memory, dims stay N C H W), which tensor cores want.
#pragma once

#include "framework/runtime/backend_abi.h"

namespace ndtrain::cuda {

ndt_tensor_type row_major(const ndt_tensor_type& t);
ndt_tensor_type channels_last(const ndt_tensor_type& t);  // of rank >= 3; else row_major

bool lie_alike(const ndt_tensor_type& a, const ndt_tensor_type& b);  // dims of extent 1 have no say
bool is_row_major(const ndt_tensor_type& t);
bool is_channels_last(const ndt_tensor_type& t);  // both hold where channels or pixels are one

}  // namespace ndtrain::cuda
