#include "framework/passes/rewrite.h"

#include <gtest/gtest.h>

#include "framework/passes/pattern.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::count_nodes;

// Every Neg of a Neg that nobody else reads is an Abs; the longest row of them first.
std::vector<Match> find_negated(const Matcher& m) {
  std::vector<Match> all;
  for (int length = 3; length >= 2; --length) {
    for (int i = m.nodes(); i-- > 0;) {
      std::vector<int> row;
      for (int at = i; m.is(at, "Neg") && row.size() < static_cast<size_t>(length);) {
        row.push_back(at);
        at = m.maker(m.input(at, 0));
      }
      if (row.size() < static_cast<size_t>(length)) continue;
      const ValueId from = m.input(row.back(), 0);
      all.push_back(fused("FusedElementwise", {from}, {{"steps", "Abs x0"}}, row));
    }
  }
  return all;
}

constexpr Rewrite kNegated{find_negated, Needs::kLayout};

struct Row {
  Graph g;
  ValueId x = g.add_input("x", {DType::kF32, {4}});
  explicit Row(int length) {
    ValueId y = x;
    for (int i = 0; i < length; ++i) y = g.add1("Neg", {y});
    g.rename(y, "y");
    g.mark_output(y);
  }
};

TEST(Rewrite, OfMatchesThatOverlapTheFirstStands) {
  const Graph r = rewrite(Row(4).g, kNegated).graph;
  EXPECT_EQ(count_nodes(r, "FusedElementwise"), 1);
  EXPECT_EQ(count_nodes(r, "Neg"), 1);
  EXPECT_EQ(r.value(r.outputs()[0]).name, "y");
}

TEST(Rewrite, WhatIsRefusedLeavesItsNodesToTheNext) {
  int asked = 0;
  const Accepts second = [&](Needs needs, const Graph& alone, const Node& n) {
    EXPECT_EQ(needs, Needs::kLayout);
    EXPECT_EQ(n.op, "FusedElementwise");
    EXPECT_EQ(alone.nodes().size(), 1U);
    return ++asked == 2;
  };
  const Graph r = rewrite(Row(3).g, kNegated, {}, second).graph;
  EXPECT_EQ(asked, 2) << "the third overlaps the second";
  EXPECT_EQ(count_nodes(r, "FusedElementwise"), 1);
  EXPECT_EQ(count_nodes(r, "Neg"), 1);
}

TEST(Rewrite, WhatIsKeptIsThereAndMayChange) {
  Row row(2);
  const ValueId w = row.g.add_param("w", testing::random_tensor({DType::kF32, {4}}, 1, "w"));
  const Rewritten r = rewrite(row.g, kNegated, std::vector{w});
  ASSERT_NE(r.now[index(w)], kNone);
  EXPECT_EQ(r.graph.value(r.now[index(w)]).name, "w");
  EXPECT_TRUE(Matcher(row.g).is_fixed(w));
  EXPECT_FALSE(Matcher(row.g, std::vector{w}).is_fixed(w));
}

TEST(Pattern, ReadsAnUnorderedOpBothWaysAndAnOrderedOneOnce) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {4}}), y = g.add_input("y", {DType::kF32, {4}});
  const ValueId root = g.add1("Sqrt", {y});
  for (const char* op : {"Add", "Sub"}) g.mark_output(g.add1(op, {x, g.add1("Sqrt", {y})}));
  g.mark_output(g.add1("Mul", {root, root}));
  const auto found = [&](const Pattern& p) {
    return find_pattern(Matcher(g), p, [](const Bound& b) { return Match{b.nodes, {}}; }).size();
  };
  const Pattern inner("Sqrt", {"b"});
  EXPECT_EQ(found({"Add", {inner, "a"}}), 1U);
  EXPECT_EQ(found({"Sub", {inner, "a"}}), 0U);
  EXPECT_EQ(found({"Sub", {"a", inner}}), 1U);
  EXPECT_EQ(found({"Mul", {Pattern("Sqrt", {"b"}, "s"), "s"}}), 1U);
  EXPECT_EQ(found({"Add", {"a", Pattern("Sqrt", {"a"})}}), 0U) << "one name, two values";
}

TEST(Pattern, ANodeIsWhateverIsSaidOfItAndMayHaveMoreInputs) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {4}});
  const ValueId zero = g.add_constant("", Tensor::of<float>(DType::kF32, {}, {0}));
  g.mark_output(g.add1("Relu", {g.add1("Neg", {x})}));
  g.mark_output(g.add1("Clip", {g.add1("Neg", {x}), zero}));
  g.mark_output(g.add1("Clip", {x, g.add1("Neg", {zero})}));
  const auto clamps = [](const Matcher& m, int i) { return find_op(m.node(i).op).facts.clamp; };
  std::vector<std::string> found;
  const Pattern clamped(clamps, {Pattern("Neg", {"x"})}, "y");
  find_pattern(Matcher(g), clamped, [&](const Bound& b) -> std::optional<Match> {
    found.push_back(g.nodes()[static_cast<size_t>(b.nodes[0])].op);
    EXPECT_EQ(b["x"], x);
    return {};
  });
  EXPECT_EQ(found, (std::vector<std::string>{"Clip", "Relu"})) << "from the last back";
}

TEST(Pattern, OfAlternativesTheFirstThatIsTakenStands) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {4}});
  g.mark_output(g.add1("Neg", {g.add1("Sqrt", {x})}));
  const Pattern p("Neg", {either({Pattern("Sqrt", {"x"}), "x"})});
  const auto nodes = [&](size_t most) {
    std::vector<Match> all = find_pattern(Matcher(g), p, [&](const Bound& b) {
      return b.nodes.size() <= most ? std::optional(Match{b.nodes, {}}) : std::nullopt;
    });
    return all.at(0).nodes.size();
  };
  EXPECT_EQ(nodes(2), 2U);
  EXPECT_EQ(nodes(1), 1U) << "another way to read the place";
}

TEST(Pattern, IsNotThereWhereItsInsideIsReadElsewhere) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {4}});
  const ValueId inside = g.add1("Sqrt", {x});
  g.mark_output(g.add1("Neg", {inside}));
  g.mark_output(inside);
  const Pattern p("Neg", {Pattern("Sqrt", {"x"})});
  EXPECT_TRUE(find_pattern(Matcher(g), p, [](const Bound& b) {
                return Match{b.nodes, {}};
              }).empty());
}

}  // namespace
}  // namespace ndtrain
