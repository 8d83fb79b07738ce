// A map of elements computes the same wherever they lie, as long as its inputs and its output lie
// alike and fill their memory: a kernel for row-major ports then takes them as one row. So a value
// that convolutions want in blocks of channels stays there through functions that only the fallback
// has.
#pragma once

#include <optional>
#include <vector>

#include "framework/runtime/backend.h"

namespace ndtrain {

struct PortTypes {
  std::vector<ndt_tensor_type> in;
  ndt_tensor_type out;
};

// `types` are those of all values of `g`. The ports of `n` as they lie when all do as the first
// input that is not row-major; none: it is no such map, or all its inputs are row-major.
std::optional<PortTypes> lying_alike(const Graph& g, const Node& n,
                                     const std::vector<ndt_tensor_type>& types);

// The ports of `n`, which lie as `types` say, as rows; none: it is no map whose ports lie alike.
std::optional<PortTypes> as_rows(const Graph& g, const Node& n,
                                 const std::vector<ndt_tensor_type>& types);

}  // namespace ndtrain
