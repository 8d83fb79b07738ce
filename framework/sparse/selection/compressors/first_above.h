// A pass over a gradient that takes what reaches a threshold.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/sparse/selection/compressor.h"

namespace ndtrain::compressors {

// Of values, from number `begin` on and then from the first, the first `most` that are at least the
// threshold; in this order.
struct FirstAbove {
  std::vector<uint32_t> indices;
  int64_t stopped = 0;  // behind the last that was looked at; `begin` if all were
  bool all = false;     // were looked at
};
FirstAbove first_above(std::span<const float> values, float threshold, int64_t most, int64_t begin,
                       InstructionSet set);

// Takes the first k of at least the threshold, and where there are fewer, the first of the others.
// state.begin moves on, where passes rotate.
struct TakenAbove {
  bool short_of = false;    // fewer were found
  bool before_end = false;  // k were found before all were looked at
};
TakenAbove take_above(std::span<float> values, float threshold, int64_t k,
                      const CompressorOptions& options, CompressorState& state, Selection& out);

}  // namespace ndtrain::compressors
