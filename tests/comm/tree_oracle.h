// The serial sum over a binary tree, as its definition has it.
#pragma once

#include <cmath>
#include <vector>

#include "framework/core/rng.h"

namespace ndtrain::comm_tests {

using Leaves = std::vector<std::vector<float>>;

// Values of very different sizes, whose sum in another order has other bits.
inline Leaves random_leaves(int leaves, size_t values, uint64_t seed) {
  Rng rng(seed, "leaves");
  Leaves all(static_cast<size_t>(leaves));
  for (std::vector<float>& leaf : all) {
    for (size_t i = 0; i < values; ++i) {
      const int exponent = static_cast<int>(rng.next_below(12)) - 6;
      leaf.push_back(static_cast<float>(std::ldexp(rng.next_normal(), exponent)));
    }
  }
  return all;
}

// Leaves [begin, end) below the node of so many leaves that begins at `first`: halves are added
// from below. Nodes that none of these leaves is in add nothing.
inline std::vector<float> tree_sum(const Leaves& leaves, int begin, int end, int first, int width) {
  if (width == 1) return leaves[static_cast<size_t>(first)];
  const int middle = first + width / 2;
  if (end <= middle) return tree_sum(leaves, begin, end, first, width / 2);
  if (begin >= middle) return tree_sum(leaves, begin, end, middle, width / 2);
  std::vector<float> left = tree_sum(leaves, begin, end, first, width / 2);
  const std::vector<float> right = tree_sum(leaves, begin, end, middle, width / 2);
  for (size_t i = 0; i < left.size(); ++i) left[i] = left[i] + right[i];
  return left;
}

inline std::vector<float> tree_sum(const Leaves& leaves, int begin, int end) {
  int width = 1;
  while (width < static_cast<int>(leaves.size())) width *= 2;
  return tree_sum(leaves, begin, end, 0, width);
}

}  // namespace ndtrain::comm_tests
