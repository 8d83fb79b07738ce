#include "framework/sparse/selection/compressors/first_above.h"

#include <algorithm>

#include "framework/sparse/selection/magnitude.h"

namespace ndtrain::compressors {
namespace {

// The first `count` that are not among `taken`, both from `begin` on and then from the first.
std::vector<uint32_t> first_others(const std::vector<uint32_t>& taken, int64_t n, int64_t begin,
                                   int64_t count) {
  std::vector<uint32_t> others;
  others.reserve(count);
  size_t next = 0;
  for (int64_t j = 0; j < n && static_cast<int64_t>(others.size()) < count; ++j) {
    const auto i = static_cast<uint32_t>(begin + j < n ? begin + j : begin + j - n);
    if (next < taken.size() && taken[next] == i) {
      ++next;
    } else {
      others.push_back(i);
    }
  }
  return others;
}

}  // namespace

FirstAbove first_above(std::span<const float> values, float threshold, int64_t most, int64_t begin,
                       InstructionSet set) {
  const auto n = static_cast<int64_t>(values.size());
  FirstAbove found;
  found.indices.reserve(most);
  found.stopped = append_at_least(values, begin, n, threshold, most, set, found.indices);
  if (static_cast<int64_t>(found.indices.size()) < most) {
    found.stopped = append_at_least(values, 0, begin, threshold, most, set, found.indices);
  }
  found.all = found.stopped == (begin == 0 ? n : begin);
  if (found.stopped == n) found.stopped = 0;
  return found;
}

TakenAbove take_above(std::span<float> values, float threshold, int64_t k,
                      const CompressorOptions& options, CompressorState& state, Selection& out) {
  const auto n = static_cast<int64_t>(values.size());
  const int64_t begin = options.rotate && state.begin < n ? state.begin : 0;
  FirstAbove found = first_above(values, threshold, k, begin, options.instructions);
  const auto missing = k - static_cast<int64_t>(found.indices.size());
  if (missing > 0) {
    const std::vector<uint32_t> others = first_others(found.indices, n, begin, missing);
    found.indices.insert(found.indices.end(), others.begin(), others.end());
  }
  if (!std::is_sorted(found.indices.begin(), found.indices.end())) {
    std::sort(found.indices.begin(), found.indices.end());
  }
  move_out(values, std::move(found.indices), out);
  state.begin = options.rotate ? found.stopped : 0;
  return {.short_of = missing > 0, .before_end = missing <= 0 && !found.all};
}

}  // namespace ndtrain::compressors
