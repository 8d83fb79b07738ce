// How kernels walk tensors of up to four inputs and an output together, whatever their layouts and
// broadcasts: dims in the order of the output's memory, neighbours that advance alike merged.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "backends/cuda/kernels/number.h"

namespace ndtrain::cuda {

// x / n for x below 2^31 by a product (Granlund and Montgomery, PLDI'94).
struct Divisor {
  int64_t n = 1;
  uint32_t multiplier = 0, shift = 0;

  Divisor() = default;
  explicit Divisor(int64_t by);

  NDT_DEVICE int64_t quotient(int64_t x) const {
    if ((x | n) >> 31) return x / n;
    const auto x32 = static_cast<uint32_t>(x);
    const auto high = static_cast<uint32_t>((uint64_t{x32} * multiplier) >> 32);
    return (high + x32) >> shift;
  }
};

inline constexpr int kMostInputs = 4;
inline constexpr int kMostDims = 2 * NDT_MAX_RANK;

struct Walk {
  struct Dim {
    Divisor extent;
    int64_t out = 0, in[kMostInputs] = {};  // steps, in elements
  };

  int64_t count = 1;
  int rank = 0;
  Dim dims[kMostDims];  // outermost first
  int64_t out_start = 0, in_start[kMostInputs] = {};

  const Dim& inner() const { return dims[rank - 1]; }
  // Input k has the output's elements where the output has them.
  bool whole(int k) const;
};

// Where element i of a walk lies.
template <int kInputs>
struct Position {
  int64_t out, in[kInputs];

  NDT_DEVICE Position(const Walk& w, int64_t i) {
    out = w.out_start;
    NDT_UNROLL
    for (int k = 0; k < kInputs; ++k) in[k] = w.in_start[k];
    for (int d = w.rank - 1; d >= 0; --d) {
      const int64_t rest = w.dims[d].extent.quotient(i), at = i - rest * w.dims[d].extent.n;
      i = rest;
      out += at * w.dims[d].out;
      NDT_UNROLL
      for (int k = 0; k < kInputs; ++k) in[k] += at * w.dims[d].in[k];
    }
  }
};

// Dims in any order. Sorts them by the output's steps, merges, drops those of extent 1; at least
// one dim is left. Dims of extent 0 make the count 0.
struct Steps {
  int64_t n, out, in[kMostInputs];
};
Walk walk(std::vector<Steps> dims);

// What is left of a walk of one dim behind its first `done` elements.
Walk rest_of(const Walk& walk, int64_t done);

// In units of `size` elements along the inner dim; false where vectors of it are none of memory. An
// operand that does not advance along it (bit of `single`) is one number for all of a vector. What
// does not fill a vector at the end of a walk of one dim is left out.
bool in_vectors(Walk& walk, int inputs, int size, unsigned& single);

// Over the elements of `out`, to which every one of `in` broadcasts. Throws: it does not, or a
// layout of blocks.
Walk walk(const ndt_tensor_type& out, const std::vector<ndt_tensor_type>& in);

// The steps of `t` along the dims of a tensor of `rank` dims that it broadcasts to, 0 where its own
// extent is 1.
std::vector<int64_t> broadcast_steps(const ndt_tensor_type& t, int rank);

}  // namespace ndtrain::cuda
