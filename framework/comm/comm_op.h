// What a group of ranks does together.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/core/dtype.h"

namespace ndtrain {

using RankGroup = std::vector<int>;  // ranks of the run, rising; a place in it is a group's rank

// Every rank of the group gives the same kind, group, leaves, wire type and root, and, but for
// kAllToAll, `data` of the same length and the same parts. Sums are added in f32 in the order of a
// tree (sum_tree.h): the same bits on any number of ranks, unless it is rounded what travels.
struct CommOp {
  static constexpr int kLanes = 1 << 10;
  enum class Kind : uint8_t {
    kReduceScatter,  // a rank's part becomes the sum; its other parts keep this rank's summand
    kAllGather,      // the parts of the others become what these have there
    kAllReduce,      // one after the other
    kReduce,         // as kReduceScatter where all parts are the root's
    kBroadcast,      // as kAllGather where all parts are the root's
    kAllToAll,       // part p of `data` becomes the sender's part of p's `received`
    kBarrier,        // done when all have begun it
    kMessage         // from the root to the other one of a pair
  };
  Kind kind = Kind::kBarrier;
  RankGroup group;
  std::string name;            // "RS 3", for traces and for people
  std::span<float> data = {};  // where it lies, until the operation is done
  // Of the group's rank p is part [part_begin[p], part_begin[p + 1]) of `data`, which may be empty:
  // one number more than ranks. Without any parts are equal_parts(); of kReduce, kBroadcast and
  // kMessage all are the root's.
  std::vector<int64_t> part_begin = {};
  // Of sums: the group's rank p adds up leaves [leaf_begin[p], leaf_begin[p + 1]) of the tree, none
  // where it has nothing to add. Without any each rank is one leaf.
  std::vector<int> leaf_begin = {};
  // Of sums: this rank's values for the second and further of its subtrees_of(), as long as `data`,
  // which has those for the first.
  std::vector<const float*> more_subtrees = {};
  DType wire = DType::kF32;  // or kBF16, kF16: rounded once when sent; all get what was rounded
  int root = 0;              // a rank of the run: of kMessage, who sends it
  int lane = 0;              // of kMessage, below kLanes: those of a lane keep their order
  bool bulk = false;         // of kMessage: what is not bulk overtakes it (Transport::send_bulk())
  // Of sums and kAllGather, of all ranks in f32: by the library's collective below the transport,
  // whose order of sums is its own; the same on all ranks. Where that collects on a device, `data`
  // lies there, kBroadcast may be native, too, and a rank adds one subtree's sum.
  bool native = false;
  void* after = nullptr;  // then: of which native stream it waits for the work so far
  // Becomes when it was done, by the communicator's clock, before anybody is told.
  std::chrono::nanoseconds* ended = nullptr;
  // Of kAllToAll: what comes, as `part_begin` has it for what is sent.
  std::span<float> received = {};
  std::vector<int64_t> received_begin = {};
};

// Parts of so many values for so many ranks, the first ones longer by one where they cannot be
// equal.
std::vector<int64_t> equal_parts(int64_t values, size_t ranks);

// The operation with its parts and leaves written out. Throws Error, which names the operation,
// where one of its fields cannot be, or `rank` is not in the group.
CommOp checked(CommOp op, int rank);

// Of the group's rank `place`, when the operation is checked().
std::span<float> part_of(const CommOp& op, size_t place);
std::span<float> received_part_of(const CommOp& op, size_t place);

}  // namespace ndtrain
