// Parts of the parameters that agree at different steps, so that what travels is spread over time
// (Douillard et al., "Streaming DiLoCo", arXiv:2501.18512).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/train/parameter_space.h"

namespace ndtrain {

struct Fragment {
  size_t first_slot = 0, end_slot = 0;  // neighbours
  ParameterRange range;                 // of these, with the padding between them
  int64_t offset = 0;                   // it is sent behind steps offset, offset + H, …, from 1
};

// So many of about equal size, from the first slot on; the f-th has offset H (f + 1) / count.
// Throws Error unless there are at least as many slots, and steps H, as fragments.
std::vector<Fragment> fragments_of(std::span<const ParameterSlot> slots, int count,
                                   int64_t inner_steps);

}  // namespace ndtrain
