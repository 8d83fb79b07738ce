#include "framework/comm/comm_op.h"

#include <algorithm>
#include <functional>

#include "framework/comm/sum_tree.h"
#include "framework/comm/wire_type.h"
#include "framework/core/error.h"

namespace ndtrain {
namespace {

using Kind = CommOp::Kind;

template <typename T>
void check_begins(const CommOp& op, const std::vector<T>& begins, int64_t end, const char* what) {
  if (begins.size() != op.group.size() + 1 || begins.front() != 0 || begins.back() != end ||
      !std::ranges::is_sorted(begins)) {
    throw Error("'", op.name, "': ", what, " are not rising numbers from 0 to ", end, " for ",
                op.group.size(), " ranks");
  }
}

bool is_sum(Kind kind) {
  return kind == Kind::kReduceScatter || kind == Kind::kAllReduce || kind == Kind::kReduce;
}

size_t place_of(const CommOp& op, int rank) {
  const auto it = std::ranges::find(op.group, rank);
  if (it == op.group.end()) throw Error("'", op.name, "': rank ", rank, " is not in its group");
  return static_cast<size_t>(it - op.group.begin());
}

void check_leaves(CommOp& op, size_t place) {
  if (op.leaf_begin.empty()) {
    for (size_t p = 0; p <= op.group.size(); ++p) op.leaf_begin.push_back(static_cast<int>(p));
  }
  check_begins(op, op.leaf_begin, op.leaf_begin.back(), "leaves");
  const int leaves = op.leaf_begin.back();
  if (leaves < 1) throw Error("'", op.name, "': a sum of no leaves");
  const size_t own = subtrees_of(op.leaf_begin[place], op.leaf_begin[place + 1], leaves).size();
  if (op.more_subtrees.size() + 1 != std::max<size_t>(own, 1)) {
    throw Error("'", op.name, "': ", op.more_subtrees.size() + 1, " partial sums for ", own,
                " subtrees");
  }
}

std::span<float> slice(std::span<float> of, const std::vector<int64_t>& begins, size_t place) {
  return of.subspan(static_cast<size_t>(begins[place]),
                    static_cast<size_t>(begins[place + 1] - begins[place]));
}

}  // namespace

std::span<float> part_of(const CommOp& op, size_t place) {
  return slice(op.data, op.part_begin, place);
}

std::span<float> received_part_of(const CommOp& op, size_t place) {
  return slice(op.received, op.received_begin, place);
}

std::vector<int64_t> equal_parts(int64_t values, size_t ranks) {
  const auto n = static_cast<int64_t>(ranks);
  std::vector<int64_t> begins;
  for (int64_t p = 0; p <= n; ++p) begins.push_back(values / n * p + std::min(p, values % n));
  return begins;
}

CommOp checked(CommOp op, int rank) {
  const size_t place = place_of(op, rank);
  if (std::ranges::adjacent_find(op.group, std::greater_equal<>()) != op.group.end()) {
    throw Error("'", op.name, "': the ranks of a group rise");
  }
  check_wire_type(op.wire);
  const bool gathers = op.kind == Kind::kAllGather || op.kind == Kind::kBroadcast;
  if (op.native && (op.wire != DType::kF32 || !(is_sum(op.kind) || gathers))) {
    throw Error("'", op.name, "': a library's collective is a sum or a gather, in f32");
  }
  const auto values = static_cast<int64_t>(op.data.size());
  if (op.kind == Kind::kMessage && op.group.size() != 2) {
    throw Error("'", op.name, "': a message is between two ranks, not ", op.group.size());
  }
  if (op.lane < 0 || op.lane >= (op.kind == Kind::kMessage ? CommOp::kLanes : 1)) {
    throw Error("'", op.name, "': lane ", op.lane, "; messages have ", CommOp::kLanes);
  }
  if (op.kind == Kind::kReduce || op.kind == Kind::kBroadcast || op.kind == Kind::kMessage) {
    const size_t root = place_of(op, op.root);
    op.part_begin.assign(op.group.size() + 1, 0);
    std::fill(op.part_begin.begin() + static_cast<std::ptrdiff_t>(root) + 1, op.part_begin.end(),
              values);
  }
  if (op.part_begin.empty()) op.part_begin = equal_parts(values, op.group.size());
  check_begins(op, op.part_begin, values, "parts");
  if (is_sum(op.kind)) check_leaves(op, place);
  if (op.kind == Kind::kAllToAll) {
    check_begins(op, op.received_begin, static_cast<int64_t>(op.received.size()), "received parts");
    if (op.received_begin[place + 1] - op.received_begin[place] !=
        op.part_begin[place + 1] - op.part_begin[place]) {
      throw Error("'", op.name, "': what a rank sends itself is not what it receives");
    }
  }
  return op;
}

}  // namespace ndtrain
