#include "framework/sparse/local/fragments.h"

#include "framework/core/error.h"

namespace ndtrain {

std::vector<Fragment> fragments_of(std::span<const ParameterSlot> slots, int count,
                                   int64_t inner_steps) {
  if (count < 1) throw Error(count, " fragments: 1 or more");
  if (count > std::ssize(slots)) {
    throw Error(count, " fragments of ", slots.size(), " parameters: at most one of each");
  }
  if (count > inner_steps) {
    throw Error(count, " fragments that agree every ", inner_steps,
                " steps: at most one behind each step");
  }
  int64_t elements = 0;
  for (const ParameterSlot& slot : slots) elements += slot.range.size();
  std::vector<Fragment> fragments;
  size_t slot = 0;
  int64_t done = 0;
  for (int64_t f = 0; f < count; ++f) {
    Fragment fragment{.first_slot = slot, .offset = inner_steps * (f + 1) / count};
    const auto left = static_cast<size_t>(count - f - 1);  // fragments that follow
    const int64_t until = f + 1 == count ? elements : elements / count * (f + 1);
    do {
      done += slots[slot].range.size();
      ++slot;
    } while (slot + left < slots.size() && (left == 0 || done < until));
    fragment.end_slot = slot;
    fragment.range = {slots[fragment.first_slot].range.begin, slots[slot - 1].range.end};
    fragments.push_back(fragment);
  }
  return fragments;
}

}  // namespace ndtrain
