// What several op families share.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "framework/graph/op.h"

namespace ndtrain {

// infer: one output of input 0's type; further inputs must have the same shape.
void same_type(InferContext& c);

// A gradient `dy` of a value broadcast from `shape`: summed over the broadcast dims.
ValueId unbroadcast(Graph& g, ValueId dy, const Shape& shape);

// Calls f(flat index of a, flat index of b, … per shape) for every element of `out` in row-major
// order; each of `shapes` broadcasts to `out`.
template <typename F>
void for_each_broadcast(const Shape& out, std::span<const Shape> shapes, F f) {
  const int rank = out.rank();
  std::vector<std::vector<int64_t>> step(shapes.size(), std::vector<int64_t>(rank, 0));
  for (size_t s = 0; s < shapes.size(); ++s) {
    const std::vector<int64_t> strides = shapes[s].strides();
    const int skip = rank - shapes[s].rank();
    for (int d = skip; d < rank; ++d) step[s][d] = shapes[s][d - skip] == 1 ? 0 : strides[d - skip];
  }
  std::vector<int64_t> at(rank, 0), offset(shapes.size(), 0);
  for (int64_t i = 0; i < out.count(); ++i) {
    f(i, std::span<const int64_t>(offset));
    for (int d = rank - 1; d >= 0; --d) {
      for (size_t s = 0; s < shapes.size(); ++s) offset[s] += step[s][d];
      if (++at[d] < out[d]) break;
      at[d] = 0;
      for (size_t s = 0; s < shapes.size(); ++s) offset[s] -= step[s][d] * out[d];
    }
  }
}

}  // namespace ndtrain
