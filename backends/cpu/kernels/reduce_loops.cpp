#include "backends/cpu/kernels/reduce_loops.h"

namespace ndtrain::cpu {
namespace {

constexpr int64_t kSegmentOfRun = 65536, kSegmentOfColumns = 256;

std::vector<bool> reduced_dims(const Node& node) {
  const int rank = node.in(0).rank;
  std::vector<int64_t> axes;
  if (node.has(1)) axes = node.known_ints(1);
  if (axes.empty()) {
    return std::vector<bool>(static_cast<size_t>(rank), node.i("noop_with_empty_axes") == 0);
  }
  std::vector<bool> reduced(static_cast<size_t>(rank), false);
  for (const int64_t a : axes) {
    if (a < -rank || a >= rank) invalid("axes name dim ", a);
    reduced[static_cast<size_t>(a < 0 ? a + rank : a)] = true;
  }
  return reduced;
}

}  // namespace

ReduceLoops::ReduceLoops(const Node& node) {
  const ndt_tensor_type& x = node.in(0);
  const std::vector<bool> reduced = reduced_dims(node);
  std::vector<std::pair<Dim, bool>> dims;  // innermost first
  int64_t stride = 1;
  for (int d = x.rank - 1; d >= 0; --d) {
    if (x.dims[d] != 1) {
      if (!dims.empty() && dims.back().second == reduced[d]) {
        dims.back().first.n *= x.dims[d];
      } else {
        dims.push_back({{x.dims[d], stride}, reduced[d]});
      }
    }
    stride *= x.dims[d];
  }
  for (size_t i = dims.size(); i-- > 0;) {
    const auto& [dim, folds] = dims[i];
    if (i == 0) {
      (folds ? run_ : inner_) = dim.n;
    } else {
      (folds ? folded_ : kept_).push_back(dim);
      (folds ? combinations_ : groups_) *= dim.n;
    }
  }
  if (inner_ == 1) {
    segment_ = std::max<int64_t>(1, std::min(run_, kSegmentOfRun));
    segments_ = std::max<int64_t>(1, (run_ + segment_ - 1) / segment_);
    parts_ = std::max<int64_t>(1, combinations_) * segments_;
    // Folding nothing: one part of no elements.
    if (combinations_ == 0) run_ = 0, folded_.clear();
  } else {
    segment_ = std::max<int64_t>(1, std::min(combinations_, kSegmentOfColumns));
    parts_ = std::max<int64_t>(1, (combinations_ + segment_ - 1) / segment_);
  }
}

}  // namespace ndtrain::cpu
