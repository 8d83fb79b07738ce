// The Euclidean norm of all gradients of a step, to shorten them by (Pascanu et al., "On the
// difficulty of training recurrent neural networks", ICML'13), as PyTorch's clip_grad_norm_ does.
//
// A leaf is the sum of the squares of ParameterSpace::kAlign neighbours; leaves are added pair by
// pair in the order of a tree over the flat space (framework/comm/sum_tree.h), all in double. So
// the bits say nothing of who has added up which part of it, nor of how it was cut for that.
#pragma once

#include <span>
#include <vector>

#include "framework/comm/sum_tree.h"
#include "framework/train/parameter_space.h"

namespace ndtrain {

// Of a space of so many elements, with padding.
int norm_leaves(int64_t elements);

// The largest nodes that make up `part` of the space, from the left. Throws Error where it does not
// begin and end with leaves.
std::vector<Subtree> norm_nodes(ParameterRange part, int64_t elements);

// `values` are those of the whole space, in memory of the host; of them the node's are read.
double sum_of_squares(const Subtree& node, const float* values);

// Of nodes from the left that make up the space, each with its sum of squares. Throws Error where
// they do not.
double norm_of(std::span<const Subtree> nodes, std::span<const double> squares, int leaves);

// What gradients of this norm are multiplied by, for one of `most`: most / (norm + 1e-6), at most
// 1. Throws Error where the norm is not finite.
float clip_scale(double norm, double most);

}  // namespace ndtrain
