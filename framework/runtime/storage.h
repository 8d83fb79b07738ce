// Which values of a graph share memory: views lie where their input lies, and a kernel that may
// work in place writes over an input that nobody reads again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/graph/graph.h"
#include "framework/runtime/backend_abi.h"
#include "framework/runtime/stretch.h"

namespace ndtrain {

// Where a value is while a plan runs.
struct Place {
  enum class Kind { kAbsent, kArena, kSlot, kBinding, kConstant, kOutput };
  Kind kind = Kind::kAbsent;
  size_t at = 0;      // kArena, kSlot: byte offset; kBinding, kConstant, kOutput: number
  size_t offset = 0;  // bytes from there: a part of a joined value
  size_t step = 0;    // bytes from a slice of a stretch to the next; 0: all have it, or theirs

  bool operator==(const Place&) const = default;
};

// A node as the plan runs it.
struct NodePlan {
  bool is_view = false;          // nothing runs: the output is the input under another shape
  bool is_join = false;          // nothing runs: the inputs were written inside the output (join.h)
  uint64_t in_place_inputs = 0;  // as in ndt_prepared
};

struct Placement {
  std::vector<Place> places;  // per value
  size_t arena_bytes = 0;
  // What lives within a slice of the stretch: as many bytes for each slot, in the arena.
  size_t slots_at = 0, slot_bytes = 0;
  // Outputs that are not written where the caller wants them (constants, bindings, a value that is
  // output twice): copied from their place when all nodes have run.
  std::vector<int> copied_outputs;

  Place of(ValueId v) const { return v == kNone ? Place{} : places[index(v)]; }
};

// True for ops that only reshape.
bool is_view(const Node& n);

// `types`: how the values lie. `bindings` are given by the caller at every run. `reuse`: values may
// share bytes at all; without, no node is in a stretch.
Placement place_values(const Graph& g, std::span<const ndt_tensor_type> types,
                       std::span<const NodePlan> nodes, std::span<const ValueId> bindings,
                       bool reuse, const Stretch& stretch = {});

}  // namespace ndtrain
