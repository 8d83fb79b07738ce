// Sums whose bits depend on what is added alone, not on who has added up which part of it, as
// EasyScale (Li et al., SC'23) does with its virtual ranks: the leaves of a binary tree are added
// pair by pair, so a rank with several leaves sends one sum for each subtree that is all its own.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "framework/core/dtype.h"

namespace ndtrain {

// A node: the sum of leaves [begin, end). On level k of a tree of n leaves node i has the leaves
// [i 2^k, min((i + 1) 2^k, n)); it is the sum of its left half and, where there is one, its right.
struct Subtree {
  int begin = 0, end = 0;
  bool operator==(const Subtree&) const = default;
};

// The largest nodes that make up leaves [begin, end) of a tree of so many, from the left: at most
// two on a level. Throws Error where these are no leaves of the tree.
std::vector<Subtree> subtrees_of(int begin, int end, int leaves);

// How many additions follow each of `nodes`, which are nodes from the left that have each leaf of a
// tree of so many once, when the sums that wait for their right half lie on a stack. Throws Error
// where they are no such nodes.
std::vector<int> additions_after(std::span<const Subtree> nodes, int leaves);

// What a node is already added up to.
struct Addend {
  Subtree node;
  const void* values = nullptr;  // aligned as its type is
  DType type = DType::kF32;      // or kBF16, kF16
};

// The root of the tree: `addends` are nodes from the left that have each leaf once, each of as many
// values as `sum`, which may be the memory of one of them in f32. Adds in f32. Throws Error where
// the addends are no such nodes.
void add_in_tree_order(std::span<const Addend> addends, int leaves, std::span<float> sum);

}  // namespace ndtrain
