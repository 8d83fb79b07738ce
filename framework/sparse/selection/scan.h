// The two loops that read a whole gradient, for each instruction set. All give the same bits.
#pragma once

#include <cstdint>
#include <span>

namespace ndtrain {

enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

// Of those that this CPU has, and the best of them is the last.
std::span<const InstructionSet> instruction_sets_here();

inline constexpr int kBlockElements = 16;  // of a block of block_sums()

// The sum of the magnitudes of each block of 16 elements: element i + element i + 8, of these eight
// sums i + i + 4, then + 2, then + 1. The last block may be shorter: it is as if zeros followed,
// and the sum times 16 / its length. `sums` has ceil(values.size() / 16).
void block_sums(std::span<const float> values, std::span<float> sums, InstructionSet set);

// Bit i of masks[j]: whether |values[16 j + i]| >= threshold, or is NaN. `masks` has
// ceil(values.size() / 16); bits beyond the values are 0. `threshold` is not NaN.
void mask_at_least(std::span<const float> values, float threshold, std::span<uint16_t> masks,
                   InstructionSet set);

}  // namespace ndtrain
