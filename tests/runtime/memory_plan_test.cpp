#include "framework/runtime/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "framework/core/rng.h"
#include "framework/runtime/layout.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::random_network;

// Memory that remembers, instead of numbers, which value was last written to each byte range.
class TagMemory {
 public:
  TagMemory(const Graph& g, const MemoryPlan& p)
      : g_(g), p_(p), arena_(p.arena_bytes / 64 + 1, -1) {}

  void write(ValueId v, int tag) {
    const ValueLocation& at = p_.locations[index(v)];
    if (at.kind != ValueLocation::Kind::kArena) {
      elsewhere_[{static_cast<int>(at.kind), at.at}] = tag;
      return;
    }
    const auto [begin, end] = units(v);
    std::fill(arena_.begin() + begin, arena_.begin() + end, tag);
  }

  bool holds(ValueId v, int tag) const {
    const ValueLocation& at = p_.locations[index(v)];
    if (at.kind != ValueLocation::Kind::kArena) {
      const auto it = elsewhere_.find({static_cast<int>(at.kind), at.at});
      return it != elsewhere_.end() && it->second == tag;
    }
    const auto [begin, end] = units(v);
    return std::all_of(arena_.begin() + begin, arena_.begin() + end,
                       [&](int t) { return t == tag; });
  }

  // What a node works in says nothing.
  void work(size_t node, size_t bytes) {
    if (bytes == 0) return;
    const auto begin = arena_.begin() + static_cast<std::ptrdiff_t>(p_.workspaces_at[node] / 64);
    std::fill_n(begin, bytes / 64, -1);
  }

  bool overlap(ValueId a, ValueId b) const {
    const ValueLocation &x = p_.locations[index(a)], &y = p_.locations[index(b)];
    if (x.kind != y.kind) return false;
    if (x.kind != ValueLocation::Kind::kArena) return x.at == y.at;
    const auto [ab, ae] = units(a);
    const auto [bb, be] = units(b);
    return ab < be && bb < ae;
  }

 private:
  std::pair<std::ptrdiff_t, std::ptrdiff_t> units(ValueId v) const {
    const auto begin = static_cast<std::ptrdiff_t>(p_.locations[index(v)].at / 64);
    const auto bytes = std::max<size_t>(g_.type(v).bytes(), 1);
    return {begin, begin + static_cast<std::ptrdiff_t>((bytes + 63) / 64)};
  }

  const Graph& g_;
  const MemoryPlan& p_;
  std::vector<int> arena_;
  std::map<std::pair<int, size_t>, int> elsewhere_;
};

// Runs the graph on tags; the name of the first value that is not what it should be, or "".
std::string first_corruption(const Graph& g, std::span<const NodePlan> plans, const MemoryPlan& p) {
  TagMemory memory(g, p);
  std::vector<int> content(g.value_count());  // views hold what their input holds
  for (size_t i = 0; i < g.value_count(); ++i) {
    const auto v = static_cast<ValueId>(i);
    content[i] = static_cast<int>(i);
    if (g.value(v).kind != ValueKind::kComputed) memory.write(v, content[i]);
  }
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.nodes()[i];
    if (!plans[i].is_view) memory.work(i, plans[i].workspace);
    for (ValueId v : n.inputs) {
      if (v != kNone && !memory.holds(v, content[index(v)])) return g.value(v).name;
    }
    if (plans[i].is_view) {
      content[index(n.outputs[0])] = content[index(n.inputs[0])];
      continue;
    }
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      for (size_t in = 0; in < n.inputs.size(); ++in) {
        if (n.inputs[in] == kNone || !memory.overlap(n.outputs[k], n.inputs[in])) continue;
        const bool allowed = k == 0 && (plans[i].in_place_inputs >> in & 1) &&
                             p.locations[index(n.outputs[0])] == p.locations[index(n.inputs[in])];
        if (!allowed) return g.value(n.outputs[k]).name + " over " + g.value(n.inputs[in]).name;
      }
      for (size_t other = 0; other < k; ++other) {
        if (memory.overlap(n.outputs[k], n.outputs[other])) return g.value(n.outputs[k]).name;
      }
    }
    for (ValueId v : n.outputs) memory.write(v, content[index(v)]);
    memory.work(i, plans[i].workspace);
    for (ValueId v : n.outputs) {
      if (!memory.holds(v, content[index(v)])) return g.value(v).name + " over its workspace";
    }
  }
  for (ValueId v : g.outputs()) {
    if (!memory.holds(v, content[index(v)])) return "output " + g.value(v).name;
  }
  return "";
}

std::vector<NodePlan> random_plans(const Graph& g, uint64_t seed) {
  Rng rng(seed, "in place");
  std::vector<NodePlan> plans;
  for (const Node& n : g.nodes()) {
    const bool view = is_view(n);
    const size_t lines = view || rng.next_below(2) == 0 ? 0 : rng.next_below(200);
    plans.push_back({.is_view = view, .in_place_inputs = rng.next_bits(), .workspace = 64 * lines});
  }
  return plans;
}

// Outputs of every awkward kind.
void add_hostile_outputs(Graph& g) {
  const ValueId x = g.inputs()[0];
  const ValueId c = g.add_constant("c", Tensor::of<float>(DType::kF32, {2}, {1, 2}));
  std::vector<ValueId> outputs(g.outputs().begin(), g.outputs().end());
  outputs.push_back(x);
  outputs.push_back(c);
  outputs.push_back(outputs[0]);
  outputs.push_back(g.add1("Flatten", {x}));
  outputs.push_back(g.add1("Identity", {g.add1("Flatten", {c}, {{"axis", int64_t{0}}})}));
  outputs.push_back(g.add1("Flatten", {outputs[0]}, {{"axis", int64_t{0}}}));
  outputs.push_back(g.params()[0]);
  g.set_outputs(outputs);
}

TEST(Storage, SharedMemoryIsNeverReadAfterItIsOverwritten) {
  size_t smaller = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Graph g = random_network(seed, 20);
    if (seed % 2 == 0) add_hostile_outputs(g);
    const std::vector<NodePlan> plans = random_plans(g, seed);
    std::vector<ValueId> bindings(g.inputs().begin(), g.inputs().end());
    if (seed % 3 == 0) bindings.push_back(g.params()[0]);
    const MemoryPlan shared = plan_memory(g, row_major_types(g), plans, bindings, true);
    const MemoryPlan apart = plan_memory(g, row_major_types(g), plans, bindings, false);
    EXPECT_EQ(first_corruption(g, plans, shared), "") << "seed " << seed;
    EXPECT_EQ(first_corruption(g, plans, apart), "") << "seed " << seed;
    EXPECT_LE(shared.arena_bytes, apart.arena_bytes);
    smaller += shared.arena_bytes < apart.arena_bytes;
  }
  EXPECT_GT(smaller, 250U);
}

TEST(Storage, AChainOfElementwiseNodesWorksInPlace) {
  Graph g;
  ValueId v = g.add1("Sigmoid", {g.add_input("x", {DType::kF32, {1024}})});
  for (int i = 0; i < 10; ++i) v = g.add1("Relu", {v});
  g.mark_output(g.add1("Neg", {v}));
  std::vector<NodePlan> plans(g.nodes().size(), NodePlan{.in_place_inputs = 1});
  EXPECT_EQ(plan_memory(g, row_major_types(g), plans, g.inputs(), true).arena_bytes, 4096U);
}

// The larger of two workspaces beside nothing, the smaller one beside a value: not both at once.
TEST(Storage, WorkspacesLieWhereNoValueIs) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {256}});
  const ValueId y = g.add1("Relu", {g.add1("Sigmoid", {x})});
  g.mark_output(g.add1("Neg", {y}));
  std::vector<NodePlan> plans(3);
  plans[0].workspace = 64;    // beside what Sigmoid makes, 1024 bytes
  plans[1].workspace = 128;   // beside that and what Relu makes
  plans[2].workspace = 1024;  // beside that alone
  EXPECT_EQ(plan_memory(g, row_major_types(g), plans, g.inputs(), true).arena_bytes, 2176U);
  plans[1].workspace = 0;
  EXPECT_EQ(plan_memory(g, row_major_types(g), plans, g.inputs(), true).arena_bytes, 2048U);
  EXPECT_EQ(plan_memory(g, row_major_types(g), plans, g.inputs(), false).arena_bytes, 3072U);
}

TEST(Storage, OutputsAreWrittenWhereTheCallerWantsThem) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {4, 4}});
  const ValueId y = g.add1("Relu", {x});
  g.mark_output(g.add1("Flatten", {y}, {{"axis", int64_t{0}}}));
  g.mark_output(y);
  g.mark_output(x);
  const std::vector<NodePlan> plans = {{.in_place_inputs = 1}, {.is_view = true}};
  const MemoryPlan p = plan_memory(g, row_major_types(g), plans, g.inputs(), true);
  EXPECT_EQ(p.arena_bytes, 0U);
  EXPECT_EQ(p.locations[index(y)], (ValueLocation{ValueLocation::Kind::kOutput, 0}));
  EXPECT_EQ(p.copied_outputs, (std::vector<int>{1, 2}));
}

}  // namespace
}  // namespace ndtrain
