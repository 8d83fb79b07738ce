#include "framework/graph/uses.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

// x -> Neg -> a -> Add(a, a) -> b -> Clip(b, none, high) -> c; b and c are needed behind.
Graph small_graph() {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {2}});
  const ValueId high = g.add_constant("high", Tensor::of<float>(DType::kF32, {}, {1}));
  const ValueId a = g.add1("Neg", {x}), b = g.add1("Add", {a, a});
  const ValueId c = g.add1("Clip", {b, kNone, high});
  for (const auto& [v, name] : {std::pair(a, "a"), {b, "b"}, {c, "c"}}) g.rename(v, name);
  g.set_outputs({b, c});
  return g;
}

Model small_model() {
  Model m;
  m.inputs = {{"x", DType::kF32, {2}}};
  m.outputs = {"b", "c"};
  m.initialisers["high"] = Tensor::of<float>(DType::kF32, {}, {1});
  m.nodes = {{"Neg", {"x"}, {"a"}, {}},
             {"Add", {"a", "a"}, {"b"}, {}},
             {"Clip", {"b", "", "high"}, {"c"}, {}}};
  return m;
}

// The same of the graph and of the model: `v` gives the value of a name.
void expect_uses(const auto& uses, const auto& v) {
  EXPECT_EQ(uses.producer(v("x")), -1) << "an input";
  EXPECT_EQ(uses.producer(v("high")), -1) << "a constant";
  EXPECT_EQ(uses.producer(v("a")), 0);
  EXPECT_EQ(uses.producer(v("c")), 2);
  EXPECT_EQ(uses.readers(v("a")), (std::vector<int>{1, 1})) << "one node, twice";
  EXPECT_EQ(uses.readers(v("b")), (std::vector<int>{2, 3})) << "a node and the caller";
  EXPECT_EQ(uses.reads(v("b")), 2);
  EXPECT_EQ(uses.last_reader(v("a")), 1);
  EXPECT_EQ(uses.last_reader(v("high")), 2);
  EXPECT_EQ(uses.last_reader(v("b")), uses.caller());
  EXPECT_EQ(uses.caller(), 3);
  EXPECT_EQ(uses.sole_reader(v("x")), 0);
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(uses.sole_reader(v(name)), -1) << name;
}

TEST(Uses, AreThoseOfAGraph) {
  const Graph g = small_graph();
  const Uses<ValueId> uses = uses_of(g);
  expect_uses(uses, [&](const char* name) { return g.find(name); });
  EXPECT_EQ(uses.producer(kNone), -1);
  EXPECT_EQ(uses.reads(kNone), 0) << "an input that is not there";
}

TEST(Uses, AreThoseOfAModel) {
  const Model m = small_model();
  const Uses<std::string> uses = uses_of(m, m.outputs);
  expect_uses(uses, [](const char* name) { return std::string(name); });
  EXPECT_EQ(uses.reads(""), 0) << "an input that is not there";
  EXPECT_EQ(uses.reads("no such value"), 0);
  EXPECT_EQ(uses.last_reader("no such value"), -1);
}

TEST(Uses, OutputsThatAModelLeavesOutAreNoValues) {
  Model m = small_model();
  m.nodes.push_back({"Dropout", {"c", ""}, {"d", ""}, {}});
  EXPECT_EQ(uses_of(m, m.outputs).producer(""), -1);
  EXPECT_EQ(uses_of(m, m.outputs).producer("d"), 3);
}

TEST(Uses, TheCallerOfAModelMayNeedMoreThanItsOutputs) {
  const Model m = small_model();
  const Uses<std::string> uses = uses_of(m, std::set<std::string>{"a", "c"});
  EXPECT_EQ(uses.reads("a"), 3);
  EXPECT_EQ(uses.last_reader("a"), uses.caller());
  EXPECT_EQ(uses.sole_reader("b"), 2) << "not asked for";
}

}  // namespace
}  // namespace ndtrain
