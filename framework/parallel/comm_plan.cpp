#include "framework/parallel/comm_plan.h"

#include <algorithm>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

using Kind = PlannedOp::Kind;

std::string op_text(const PlannedOp& op) { return symbol(op.kind) + std::to_string(op.bucket); }

void check_buckets(const CommPlan& plan, int64_t elements) {
  int64_t at = elements;
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const ParameterRange& range = plan.buckets[b];
    if (range.end != at || range.begin < 0 || range.size() < 0) {
      throw Error("plan: bucket ", b, " has elements ", range.begin, " to ", range.end,
                  " where the next end at ", at);
    }
    at = range.begin;
  }
  if (at != 0) throw Error("plan: elements 0 to ", at, " are in no bucket");
}

// The operation that has to be there before a second half; kAllReduce where none has to be.
Kind first_half(Kind kind) {
  if (kind == Kind::kAllGather) return Kind::kReduceScatter;
  if (kind == Kind::kBroadcast) return Kind::kReduce;
  return Kind::kAllReduce;
}

// How far a bucket is in the order of the operations.
struct BucketState {
  bool begun = false, complete = false;
  Kind begun_by = Kind::kAllReduce;
  size_t begun_in = 0;  // which call
};

void check_op(const PlannedOp& op, size_t call, bool shard_optimizer, BucketState& bucket) {
  const bool sharded = op.kind == Kind::kReduceScatter || op.kind == Kind::kAllGather;
  if (shard_optimizer && !sharded) {
    throw Error("plan: ", op_text(op), " leaves a sharded optimizer no slices");
  }
  if (takes_gradients(op.kind)) {
    if (bucket.begun) throw Error("plan: ", op_text(op), " sums bucket ", op.bucket, " again");
    bucket = {.begun = true, .complete = completes(op.kind), .begun_by = op.kind, .begun_in = call};
    return;
  }
  if (!bucket.begun || bucket.complete || bucket.begun_by != first_half(op.kind)) {
    throw Error("plan: ", op_text(op), " has no ", symbol(first_half(op.kind)), op.bucket,
                " to complete");
  }
  if (bucket.begun_in == call) {
    throw Error("plan: ", op_text(op), " is in one call with what it waits for");
  }
  bucket.complete = true;
}

}  // namespace

void add_from_back(CommPlan& plan, Kind kind) {
  for (size_t b = plan.buckets.size(); b-- > 0;) plan.ops.push_back({kind, static_cast<int>(b)});
}

void add_from_front(CommPlan& plan, Kind kind) {
  for (size_t b = 0; b < plan.buckets.size(); ++b) plan.ops.push_back({kind, static_cast<int>(b)});
}

CommPlan with_sharded_optimizer(CommPlan plan) {
  std::vector<PlannedOp> ops;
  for (const PlannedOp& op : plan.ops) {
    if (op.kind == Kind::kAllReduce) {
      ops.push_back({Kind::kReduceScatter, op.bucket});
      ops.push_back({Kind::kAllGather, op.bucket});
    } else {
      ops.push_back(op);
    }
  }
  plan.ops = std::move(ops);
  plan.shard_optimizer = true;
  return plan;
}

CommPlan gathers_behind_sums(CommPlan plan) {
  std::vector<PlannedOp> gathers;
  for (const PlannedOp& op : plan.ops) {
    if (!takes_gradients(op.kind)) gathers.push_back(op);
  }
  std::erase_if(plan.ops, [](const PlannedOp& op) { return !takes_gradients(op.kind); });
  std::ranges::sort(gathers, {}, &PlannedOp::bucket);
  plan.ops.insert(plan.ops.end(), gathers.begin(), gathers.end());
  for (PlannedOp& op : plan.ops) op.with_previous = false;
  return plan;
}

const char* symbol(Kind kind) {
  switch (kind) {
    case Kind::kReduceScatter:
      return "R";
    case Kind::kAllGather:
      return "A";
    case Kind::kAllReduce:
      return "AR";
    case Kind::kReduce:
      return "Re";
    case Kind::kBroadcast:
      return "B";
  }
  throw Error("plan: an operation of unknown kind ", static_cast<int>(kind));
}

bool takes_gradients(Kind kind) { return kind != Kind::kAllGather && kind != Kind::kBroadcast; }

bool completes(Kind kind) { return kind != Kind::kReduceScatter && kind != Kind::kReduce; }

std::string CommPlan::text() const {
  std::string text;
  for (const PlannedOp& op : ops) {
    if (!text.empty()) text += op.with_previous ? '+' : ' ';
    text += op_text(op);
  }
  return text;
}

void validate(const CommPlan& plan, int64_t elements) {
  check_buckets(plan, elements);
  if (plan.prefetch < 0) throw Error("plan: prefetch is ", plan.prefetch);
  std::vector<BucketState> states(plan.buckets.size());
  size_t call = 0;
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const PlannedOp& op = plan.ops[i];
    if (op.bucket < 0 || static_cast<size_t>(op.bucket) >= states.size()) {
      throw Error("plan: ", op_text(op), " is of no bucket; there are ", states.size());
    }
    if (!op.with_previous) ++call;
    if (call == 0) throw Error("plan: ", op_text(op), " has no operation before it");
    check_op(op, call, plan.shard_optimizer, states[static_cast<size_t>(op.bucket)]);
  }
  for (size_t b = 0; b < states.size(); ++b) {
    if (!states[b].complete) throw Error("plan: bucket ", b, " is not summed on every rank");
  }
}

}  // namespace ndtrain
