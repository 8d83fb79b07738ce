#include "framework/train/gradient_norm.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

constexpr int64_t kLeaf = ParameterSpace::kAlign;

// A square of a float is exact in double, so that no compiler's contraction changes a bit.
double leaf_at(const float* x) {
  std::array<double, kLeaf> sums;
  for (size_t i = 0; i < kLeaf; ++i)
    sums[i] = static_cast<double>(x[i]) * static_cast<double>(x[i]);
  for (size_t half = kLeaf / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

}  // namespace

int norm_leaves(int64_t elements) { return static_cast<int>(elements / kLeaf); }

std::vector<Subtree> norm_nodes(ParameterRange part, int64_t elements) {
  if (part.begin % kLeaf != 0 || part.end % kLeaf != 0) {
    throw Error("the norm of gradients: elements ", part.begin, " to ", part.end,
                " do not begin and end at multiples of ", kLeaf);
  }
  return subtrees_of(norm_leaves(part.begin), norm_leaves(part.end), norm_leaves(elements));
}

// As a binary counter counts.
double sum_of_squares(const Subtree& node, const float* values) {
  std::array<double, 64> waiting;  // for their right half
  size_t n = 0;
  for (int leaf = node.begin; leaf < node.end; ++leaf) {
    double sum = leaf_at(values + leaf * kLeaf);
    for (int digits = leaf - node.begin; digits % 2 != 0; digits /= 2) sum = waiting[--n] + sum;
    waiting[n++] = sum;
  }
  for (; n > 1; --n) waiting[n - 2] += waiting[n - 1];
  return n == 0 ? 0 : waiting[0];
}

double norm_of(std::span<const Subtree> nodes, std::span<const double> squares, int leaves) {
  const std::vector<int> additions = additions_after(nodes, leaves);
  std::vector<double> waiting;
  for (size_t i = 0; i < nodes.size(); ++i) {
    waiting.push_back(squares[i]);
    for (int k = 0; k < additions[i]; ++k) {
      const double right = waiting.back();
      waiting.pop_back();
      waiting.back() += right;
    }
  }
  return std::sqrt(waiting.front());
}

float clip_scale(double norm, double most) {
  if (!std::isfinite(norm)) {
    throw Error("the norm of the gradients is ", norm,
                "; the training has diverged: begin it anew with a lower learning rate");
  }
  return static_cast<float>(std::min(1.0, most / (norm + 1e-6)));
}

}  // namespace ndtrain
