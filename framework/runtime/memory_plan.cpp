#include "framework/runtime/memory_plan.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "framework/graph/op.h"
#include "framework/runtime/arena.h"
#include "framework/runtime/concat_elision.h"
#include "framework/runtime/layout.h"

namespace ndtrain {
namespace {

// Values that share one storage, by their common root.
class Aliases {
 public:
  Aliases(const Graph& g, std::span<const ndt_tensor_type> types, std::span<const NodePlan> nodes,
          bool reuse)
      : g_(g),
        types_(types),
        root_(g.value_count()),
        offset_(g.value_count(), 0),
        last_(g.value_count(), -1),
        first_(g.value_count(), -1) {
    for (size_t i = 0; i < root_.size(); ++i) root_[i] = static_cast<ValueId>(i);
    const int end = static_cast<int>(g.nodes().size());
    for (int i = 0; i < end; ++i) {
      const Node& n = g.nodes()[static_cast<size_t>(i)];
      for (ValueId v : n.outputs) first_[index(v)] = last_[index(v)] = i;
      if (nodes[static_cast<size_t>(i)].is_view) join(n.outputs[0], n.inputs[0]);
      if (nodes[static_cast<size_t>(i)].is_elided_concat) hold_parts(n);
    }
    for (int i = 0; i < end; ++i) {
      for (ValueId v : g.nodes()[static_cast<size_t>(i)].inputs) {
        if (v != kNone) last_[index(root(v))] = std::max(last_[index(root(v))], i);
      }
    }
    for (ValueId v : g.outputs()) fixed_.insert(root(v));
    if (reuse) work_in_place(nodes);
  }

  ValueId root(ValueId v) const {
    while (root_[index(v)] != v) v = root_[index(v)];
    return v;
  }
  int first(ValueId root) const { return first_[index(root)]; }
  int last(ValueId root) const { return last_[index(root)]; }
  size_t offset(ValueId v) const { return offset_[index(v)]; }  // bytes from its root

 private:
  void join(ValueId v, ValueId to) { root_[index(root(v))] = root(to); }

  void hold_parts(const Node& n) {
    const ValueId whole = n.outputs[0];
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      join(n.inputs[k], whole);
      offset_[index(n.inputs[k])] = part_offset(types_, n, k).value();
      first_[index(whole)] = std::min(first_[index(whole)], first_[index(n.inputs[k])]);
    }
  }

  void work_in_place(std::span<const NodePlan> nodes) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Node& n = g_.nodes()[i];
      const ValueId y = n.outputs[0];
      if (nodes[i].is_view || nodes[i].is_elided_concat || fixed_.contains(root(y)) || root(y) != y)
        continue;
      for (size_t k = 0; k < n.inputs.size() && k < 64; ++k) {
        if (!(nodes[i].in_place_inputs >> k & 1) || n.inputs[k] == kNone) continue;
        if (!may_write_over(n, n.inputs[k], y, static_cast<int>(i))) continue;
        const ValueId x = root(n.inputs[k]);
        const int last = std::max(last_[index(x)], last_[index(y)]);
        join(y, x);
        last_[index(x)] = last;
        break;
      }
    }
  }

  bool may_write_over(const Node& n, ValueId v, ValueId y, int node) const {
    const ValueId x = root(v);
    return g_.value(x).kind == ValueKind::kComputed && !fixed_.contains(x) && last(x) == node &&
           extent_bytes(types_[index(x)]) == extent_bytes(types_[index(y)]) &&
           std::ranges::count_if(n.inputs, [&](ValueId o) { return o != kNone && root(o) == x; }) ==
               1;
  }

  const Graph& g_;
  std::span<const ndt_tensor_type> types_;
  std::vector<ValueId> root_;
  std::vector<size_t> offset_;
  std::vector<int> last_, first_;  // by root: the steps between which it is needed
  std::set<ValueId> fixed_;        // roots that are outputs of the graph: never written over
};

// Blocks of what nodes work in, behind those of values; where they are is told by places().
class Workspaces {
 public:
  // Without `reuse` one, from beginning to end.
  Workspaces(std::span<const NodePlan> nodes, bool reuse, const BatchTiling& tiling,
             std::vector<Block>& blocks)
      : first_block_(blocks.size()), block_of_(nodes.size(), kNoBlock) {
    size_t largest = 0;
    for (size_t i = 0; i < tiling.nodes; ++i) {
      tile_bytes_ = std::max(tile_bytes_, nodes[i].workspace);
    }
    if (tile_bytes_ > 0) {
      const size_t all = tile_bytes_ * static_cast<size_t>(tiling.threads);
      std::fill_n(block_of_.begin(), tiling.nodes, blocks.size());
      blocks.push_back({.bytes = all, .first = 0, .last = static_cast<int>(tiling.nodes)});
    }
    for (size_t i = tiling.nodes; i < nodes.size(); ++i) {
      if (nodes[i].workspace == 0) continue;
      largest = std::max(largest, nodes[i].workspace);
      block_of_[i] = blocks.size();
      if (!reuse) continue;
      const int at = static_cast<int>(i);
      blocks.push_back({.bytes = nodes[i].workspace, .first = at, .last = at});
    }
    if (reuse || largest == 0) return;
    blocks.push_back({.bytes = largest, .first = 0, .last = static_cast<int>(nodes.size())});
  }

  // Takes them away again.
  void places(std::vector<Block>& blocks, MemoryPlan& p) const {
    p.tile_workspace = tile_bytes_;
    for (const size_t block : block_of_) {
      p.workspaces_at.push_back(block == kNoBlock ? 0 : blocks[block].offset);
    }
    blocks.resize(first_block_);
  }

 private:
  static constexpr size_t kNoBlock = SIZE_MAX;
  const size_t first_block_;
  size_t tile_bytes_ = 0;
  std::vector<size_t> block_of_;  // per node
};

// What one tile leaves to the next nodes is there from its beginning on: other tiles
// may not have begun.
void place_in_arena(MemoryPlan& p, const Graph& g, std::span<const ndt_tensor_type> types,
                    std::span<const NodePlan> nodes, const Aliases& storages, bool reuse,
                    const BatchTiling& tiling) {
  const int end = static_cast<int>(tiling.nodes), forever = static_cast<int>(g.nodes().size());
  const std::vector<ndt_tensor_type> within = tile_types(tiling, g, types);
  std::vector<Block> blocks, in_tile;
  std::vector<ValueId> owners, owners_in_tile;
  for (size_t i = 0; i < g.value_count(); ++i) {
    const auto v = static_cast<ValueId>(i);
    if (storages.root(v) != v || storages.first(v) < 0) continue;
    if (p.locations[i].kind != ValueLocation::Kind::kAbsent) continue;
    const int first = storages.first(v), last = storages.last(v);
    if (last < end) {
      in_tile.push_back({.bytes = extent_bytes(within[i]), .first = first, .last = last});
      owners_in_tile.push_back(v);
      continue;
    }
    blocks.push_back({.bytes = extent_bytes(types[i]),
                      .first = reuse && first >= end ? first : 0,
                      .last = reuse ? last : forever});
    owners.push_back(v);
  }
  p.tile_arena_bytes = assign_offsets(in_tile);
  if (p.tile_arena_bytes > 0) {
    const size_t all = p.tile_arena_bytes * static_cast<size_t>(tiling.threads);
    blocks.push_back({.bytes = all, .first = 0, .last = end});
  }
  const Workspaces workspaces(nodes, reuse, tiling, blocks);
  p.arena_bytes = assign_offsets(blocks);
  workspaces.places(blocks, p);
  if (p.tile_arena_bytes > 0) p.tile_arenas_at = blocks.back().offset;
  for (size_t i = 0; i < owners.size(); ++i) {
    p.locations[index(owners[i])] = {ValueLocation::Kind::kArena, blocks[i].offset};
  }
  for (size_t i = 0; i < owners_in_tile.size(); ++i) {
    p.locations[index(owners_in_tile[i])] = {ValueLocation::Kind::kTileArena, in_tile[i].offset};
  }
}

void set_steps(MemoryPlan& p, const Graph& g, std::span<const ndt_tensor_type> types,
               const Aliases& storages, const BatchTiling& tiling) {
  const auto set = [&](ValueId v) {
    if (v == kNone || g.value(v).data.defined()) return;
    ValueLocation& location = p.locations[index(v)];
    const ndt_tensor_type& whole = types[index(storages.root(v))];
    if (location.kind == ValueLocation::Kind::kTileArena) return;
    const int64_t elements = tiling.images * whole.strides[0];
    location.step = static_cast<size_t>(elements) * size_of(static_cast<DType>(whole.dtype));
  };
  for (size_t i = 0; i < tiling.nodes; ++i) {
    std::ranges::for_each(g.nodes()[i].inputs, set);
    std::ranges::for_each(g.nodes()[i].outputs, set);
  }
}

}  // namespace

bool is_view(const Node& n) { return find_op(n.op).facts.view; }

MemoryPlan plan_memory(const Graph& g, std::span<const ndt_tensor_type> types,
                       std::span<const NodePlan> nodes, std::span<const ValueId> bindings,
                       bool reuse, const BatchTiling& tiling) {
  const Aliases storages(g, types, nodes, reuse);
  MemoryPlan p;
  p.locations.resize(g.value_count());
  for (size_t i = 0; i < g.value_count(); ++i) {
    if (g.value(static_cast<ValueId>(i)).data.defined())
      p.locations[i] = {ValueLocation::Kind::kConstant, i};
  }
  for (size_t i = 0; i < bindings.size(); ++i) {
    p.locations[index(bindings[i])] = {ValueLocation::Kind::kBinding, i};
  }
  for (size_t k = 0; k < g.outputs().size(); ++k) {
    const ValueId root = storages.root(g.outputs()[k]);
    ValueLocation& location = p.locations[index(root)];
    if (g.value(root).kind == ValueKind::kComputed &&
        location.kind == ValueLocation::Kind::kAbsent) {
      location = {ValueLocation::Kind::kOutput, k};
    } else {
      p.copied_outputs.push_back(static_cast<int>(k));
    }
  }

  place_in_arena(p, g, types, nodes, storages, reuse, tiling);
  for (size_t i = 0; i < g.value_count(); ++i) {
    const auto v = static_cast<ValueId>(i);
    if (g.value(v).kind != ValueKind::kComputed) continue;
    p.locations[i] = p.locations[index(storages.root(v))];
    p.locations[i].offset = storages.offset(v);
  }
  set_steps(p, g, types, storages, tiling);
  return p;
}

}  // namespace ndtrain
