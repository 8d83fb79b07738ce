#include "framework/parallel/slices.h"

#include <algorithm>

#include "framework/comm/comm_op.h"
#include "framework/train/parameter_space.h"

namespace ndtrain {

std::vector<int64_t> slice_begins(const ParameterRange& bucket, int ranks) {
  constexpr int64_t kLine = ParameterSpace::kAlign;
  const int64_t lines = (bucket.size() + kLine - 1) / kLine;
  std::vector<int64_t> begins = equal_parts(lines, static_cast<size_t>(ranks));
  for (int64_t& begin : begins) begin = std::min(begin * kLine, bucket.size());
  return begins;
}

ParameterRange slice_of(const CommPlan& plan, size_t bucket, int rank, int ranks) {
  const ParameterRange& range = plan.buckets[bucket];
  const bool reduced = std::ranges::any_of(plan.ops, [&](const PlannedOp& op) {
    return op.kind == PlannedOp::Kind::kReduce && op.bucket == static_cast<int>(bucket);
  });
  if (reduced) return rank == 0 ? range : ParameterRange{range.end, range.end};
  const std::vector<int64_t> begins = slice_begins(range, ranks);
  const auto r = static_cast<size_t>(rank);
  return {range.begin + begins[r], range.begin + begins[r + 1]};
}

std::vector<ParameterRange> slices_of_rank(const CommPlan& plan, int rank, int ranks) {
  std::vector<ParameterRange> slices;
  for (size_t b = plan.buckets.size(); b-- > 0;) slices.push_back(slice_of(plan, b, rank, ranks));
  return slices;
}

}  // namespace ndtrain
