// Which values of a graph share memory: views lie where their input lies, a kernel that may work in
// place writes over an input that nobody reads again, and what a kernel works in lies where no
// value is meanwhile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/graph/graph.h"
#include "framework/runtime/backend_abi.h"
#include "framework/runtime/batch_tiling.h"

namespace ndtrain {

// Where a value is while a plan runs.
struct ValueLocation {
  enum class Kind { kAbsent, kArena, kTileArena, kBinding, kConstant, kOutput };
  Kind kind = Kind::kAbsent;
  size_t at = 0;      // kArena, kTileArena: byte offset; kBinding, kConstant, kOutput: number
  size_t offset = 0;  // bytes from there: a part of a joined value
  size_t step = 0;    // bytes from a tile to the next; 0: all have it, or theirs

  bool operator==(const ValueLocation&) const = default;
};

// A node as the plan runs it.
struct NodePlan {
  bool is_view = false;  // nothing runs: the output is the input under another shape
  // Nothing runs: the inputs were written inside the output (concat_elision.h).
  bool is_elided_concat = false;
  uint64_t in_place_inputs = 0;  // as in ndt_prepared
  size_t workspace = 0;          // bytes; in a tiling, of each thread
};

struct MemoryPlan {
  std::vector<ValueLocation> locations;  // per value
  size_t arena_bytes = 0;
  // What lives within a tile: as many bytes for each thread, in the arena.
  size_t tile_arenas_at = 0, tile_arena_bytes = 0;
  // Per node, where it works in the arena; in a tiling the first thread does, and the next ones so
  // many bytes further on each.
  std::vector<size_t> workspaces_at;
  size_t tile_workspace = 0;
  // Outputs that are not written where the caller wants them (constants, bindings, a value that is
  // output twice): copied from their location when all nodes have run.
  std::vector<int> copied_outputs;

  ValueLocation of(ValueId v) const { return v == kNone ? ValueLocation{} : locations[index(v)]; }
};

// True for ops that only reshape.
bool is_view(const Node& n);

// `types`: how the values lie. `bindings` are given by the caller at every run. `reuse`: values may
// share bytes at all; without, no node is in a tiling.
MemoryPlan plan_memory(const Graph& g, std::span<const ndt_tensor_type> types,
                       std::span<const NodePlan> nodes, std::span<const ValueId> bindings,
                       bool reuse, const BatchTiling& tiling = {});

}  // namespace ndtrain
