// Packed weights, one copy for all kernels and plans that want the same: equal constant ids mean
// equal bytes, and what is kept lives as long as a kernel that uses it.
#pragma once

#include <functional>
#include <memory>

#include "backends/onednn/dnnl.h"

namespace ndtrain::onednn {

// Of the constant `id` (0: nobody shares it), described by `from`, what `make` makes of it: `to`,
// which no two ways of making may have in common.
std::shared_ptr<const Packed> shared_weights(
    uint64_t id, const Desc& from, const Desc& to,
    const std::function<std::shared_ptr<const Packed>()>& make);

// The constant `id`, of which `data` gives the bytes, laid out as `to`.
std::shared_ptr<const Packed> packed_weights(uint64_t id, const Desc& from, const Desc& to,
                                             const std::function<const void*()>& data);

}  // namespace ndtrain::onednn
