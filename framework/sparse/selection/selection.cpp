#include "framework/sparse/selection/selection.h"

#include <algorithm>
#include <limits>

namespace ndtrain {
namespace {

// Above every index: 2^32 - 1 elements have indices to 2^32 - 2.
constexpr uint32_t kNoMore = std::numeric_limits<uint32_t>::max();

}  // namespace

void move_out(std::span<float> values, std::vector<uint32_t> indices, Selection& out) {
  out.indices = std::move(indices);
  out.values.resize(out.indices.size());
  for (size_t i = 0; i < out.indices.size(); ++i) {
    float& value = values[out.indices[i]];
    out.values[i] = value;
    value = 0;
  }
}

Selection sum_of(std::span<const Selection> of_ranks) {
  std::vector<uint32_t> next;  // of each rank, the index of its first element that is not added yet
  std::vector<size_t> at(of_ranks.size(), 0);
  size_t most = 0;
  for (const Selection& s : of_ranks) {
    next.push_back(s.indices.empty() ? kNoMore : s.indices[0]);
    most += s.indices.size();
  }
  Selection sum;
  sum.indices.reserve(most);
  sum.values.reserve(most);
  while (!next.empty()) {
    const uint32_t index = *std::min_element(next.begin(), next.end());
    if (index == kNoMore) break;
    bool first = true;
    float value = 0;
    for (size_t r = 0; r < next.size(); ++r) {
      if (next[r] != index) continue;
      const Selection& s = of_ranks[r];
      value = first ? s.values[at[r]] : value + s.values[at[r]];
      first = false;
      next[r] = ++at[r] < s.indices.size() ? s.indices[at[r]] : kNoMore;
    }
    sum.indices.push_back(index);
    sum.values.push_back(value);
  }
  return sum;
}

}  // namespace ndtrain
