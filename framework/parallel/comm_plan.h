// What is exchanged in a step, in which order: made once, equal on all ranks, printed and kept with
// the run. The simulator tells what it costs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/train/parameter_range.h"

namespace ndtrain {

struct PlannedOp {
  // A bucket is summed by one of: kAllReduce; kReduceScatter, later kAllGather; kReduce to rank 0,
  // later kBroadcast.
  enum class Kind : uint8_t { kReduceScatter, kAllGather, kAllReduce, kReduce, kBroadcast };
  Kind kind;
  int bucket;
  bool with_previous = false;  // one grouped call with the operation before

  bool operator==(const PlannedOp&) const = default;
};

// The link carries the operations in this order and no other: one that is not ready holds up all
// behind it. An operation on gradients is ready when all of its bucket's are complete.
struct CommPlan {
  // They adjoin and cover the flat space, in forward order: bucket 0 has the front layers, whose
  // gradients are complete last and whose values the next forward pass reads first.
  std::vector<ParameterRange> buckets;
  std::vector<PlannedOp> ops;    // of a step; those behind the backward pass run into the next
  bool shard_optimizer = false;  // a rank updates its slice between the halves of a sum
  // Updates stand in front of a layer's next forward pass, which waits for that layer alone; else
  // behind the backward pass, when all is exchanged.
  bool update_late = true;
  // A bucket is gathered, or broadcast, when the forward pass has come to the one so many places
  // in front of it; 0: as soon as may be.
  int prefetch = 0;

  // "R15 R14+A15 …": R reduce-scatter, A all-gather, AR all-reduce, Re reduce, B broadcast, with
  // the bucket's number; + joins a grouped call.
  std::string text() const;

  bool operator==(const CommPlan&) const = default;
};

// Behind the operations there are, one for every bucket: in the order in which gradients become
// complete; in that in which the forward pass reads.
void add_from_back(CommPlan& plan, PlannedOp::Kind kind);
void add_from_front(CommPlan& plan, PlannedOp::Kind kind);

// `plan` with a sharded optimizer: each all-reduce is its halves, one directly behind the other.
CommPlan with_sharded_optimizer(CommPlan plan);

// `plan` with its second halves behind all of its sums, each by itself, from the front. Where an
// update needs more than its own bucket's sum, they would else hold up what they wait for.
CommPlan gathers_behind_sums(CommPlan plan);

const char* symbol(PlannedOp::Kind kind);

// What makes the sum, or the first half of one: it needs the bucket's gradients.
bool takes_gradients(PlannedOp::Kind kind);
// After it every rank has the bucket.
bool completes(PlannedOp::Kind kind);

// Throws Error naming bucket or operation: buckets that leave out some of `elements`, a bucket that
// is summed twice, in part or not at all, a second half in front of or grouped with its first, a
// grouped call without an operation before it, a sharded optimizer without both halves.
void validate(const CommPlan& plan, int64_t elements);

}  // namespace ndtrain
