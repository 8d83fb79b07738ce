// ConcatElision without copies: a Concat over channels whose parts are computed where they belong
// in it, by kernels that may leave gaps between images.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "framework/graph/uses.h"
#include "framework/runtime/backend_abi.h"

namespace ndtrain {

// Which Concats of a graph, which must outlive this, have parts of their own.
class ConcatElision {
 public:
  explicit ConcatElision(const Graph& g) : g_(g), uses_(uses_of(g)) {}

  // The nodes that compute the parts of Concat `n`, in order, when every part is computed for it
  // alone; empty when one is not.
  std::vector<size_t> part_producers(const Node& n) const;

 private:
  const Graph& g_;
  Uses<ValueId> uses_;
};

// Where part k of Concat `n` begins in it, in bytes; nullopt when it begins or ends inside a block
// of channels. `types`: how the values lie.
std::optional<size_t> part_offset(std::span<const ndt_tensor_type> types, const Node& n, size_t k);

}  // namespace ndtrain
