#include "framework/comm/library_calls.h"

namespace ndtrain {
namespace {

bool has_equal_parts(const CommOp& op) {
  const int64_t length = op.part_begin[1];
  for (size_t p = 0; p < op.group.size(); ++p) {
    if (op.part_begin[p + 1] - op.part_begin[p] != length) return false;
  }
  return true;
}

}  // namespace

std::vector<LibraryCall> calls_on_device(const CommOp& op, size_t place) {
  using Kind = CommOp::Kind;
  if (op.data.empty()) return {};
  if (op.kind == Kind::kAllReduce) return {{LibraryCollective::kAllReduce, op.data, op.data}};
  const bool sums = op.kind == Kind::kReduceScatter || op.kind == Kind::kReduce;
  if (has_equal_parts(op)) {
    const std::span<float> own = part_of(op, place);
    if (sums) return {{LibraryCollective::kReduceScatter, op.data, own}};
    return {{LibraryCollective::kAllGather, own, op.data}};
  }
  std::vector<LibraryCall> calls;
  for (size_t p = 0; p < op.group.size(); ++p) {
    const std::span<float> part = part_of(op, p);
    if (part.empty()) continue;
    calls.push_back({sums ? LibraryCollective::kReduce : LibraryCollective::kBroadcast, part, part,
                     static_cast<int>(p)});
  }
  return calls;
}

}  // namespace ndtrain
