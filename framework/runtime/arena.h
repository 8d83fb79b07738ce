#pragma once

#include <cstddef>
#include <span>

namespace ndtrain {

// A buffer needed from step `first` to step `last`, both included.
struct Block {
  size_t bytes = 0;
  int first = 0, last = 0;
  size_t offset = 0;  // the answer
};

inline constexpr size_t kArenaAlignment = 64;
inline size_t aligned(size_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

// Gives every block an offset such that no two that are needed at the same time overlap, and
// returns the size of the arena. Largest first, each at the lowest place where it fits ("greedy by
// size", Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020).
size_t assign_offsets(std::span<Block> blocks);

}  // namespace ndtrain
