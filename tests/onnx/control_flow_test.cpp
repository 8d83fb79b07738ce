// If, Loop and Scan: what is folded, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/limits.h"
#include "framework/onnx/export.h"
#include "tests/onnx/model_proto.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Doubles = std::vector<double>;

onnx::GraphProto& graph(onnx::NodeProto& n, const std::string& attribute) {
  onnx::AttributeProto& a = *n.add_attribute();
  a.set_name(attribute);
  a.set_type(onnx::AttributeProto::GRAPH);
  return *a.mutable_g();
}

onnx::NodeProto& add(onnx::GraphProto& g, const std::string& op, const Names& inputs,
                     const Names& outputs) {
  onnx::NodeProto& n = *g.add_node();
  n.set_op_type(op);
  for (const std::string& name : inputs) n.add_input(name);
  for (const std::string& name : outputs) n.add_output(name);
  return n;
}

void bools(onnx::ModelProto& m, const std::string& name, bool value) {
  onnx::TensorProto& t = *m.mutable_graph()->add_initializer();
  t.set_name(name);
  t.set_data_type(onnx::TensorProto::BOOL);
  t.add_int32_data(value ? 1 : 0);
}

// y = -x where the condition holds, else |x|.
void add_if(onnx::ModelProto& m, const std::string& condition) {
  onnx::NodeProto& n = add_node(m, "If", {condition}, {"y"});
  onnx::GraphProto& then = graph(n, "then_branch");
  add(then, "Neg", {"x"}, {"z"});
  then.add_output()->set_name("z");
  onnx::GraphProto& other = graph(n, "else_branch");
  add(other, "Abs", {"x"}, {"z"});
  other.add_output()->set_name("z");
  add_output(m, "y");
}

const Tensor kPair = floats({1, 2}, {-1, 2});

TEST(If, TakesTheBranchOfAConstant) {
  for (const bool value : {true, false}) {
    onnx::ModelProto m = empty_model();
    add_input(m, "x", {-1, 2});
    bools(m, "c", value);
    add_if(m, "c");
    EXPECT_THAT(run_floats(m, {kPair}), value ? ElementsAre(1, -2) : ElementsAre(1, 2));
    const Model model = import_proto(m);
    EXPECT_EQ(content_id(import_model(export_model(model))), content_id(model));
  }
}

// What exporters write for a Squeeze of an axis that may be longer than one.
onnx::ModelProto by_extent(int64_t axis, int64_t wanted) {
  onnx::ModelProto m = empty_model();
  add_input(m, "x", {-1, 2});
  add_ints(m, "axis", {}, {axis});
  add_ints(m, "wanted", {}, {wanted});
  add_node(m, "Shape", {"x"}, {"shape"});
  add_node(m, "Gather", {"shape", "axis"}, {"extent"});
  add_node(m, "Equal", {"extent", "wanted"}, {"c"});
  add_if(m, "c");
  return m;
}

TEST(If, TakesTheBranchOfAnExtent) {
  EXPECT_THAT(run_floats(by_extent(1, 2), {kPair}), ElementsAre(1, -2));
  EXPECT_THAT(run_floats(by_extent(1, 3), {kPair}), ElementsAre(1, 2));
}

TEST(If, OfTheBatchOrOfDataIsRefused) {
  EXPECT_THAT(refusal(by_extent(0, 2)),
              AllOf(HasSubstr("(If)"), HasSubstr("its condition ('c') depends on an input or on "
                                                 "the batch")));
  onnx::ModelProto m = empty_model();
  add_input(m, "x", {2});
  add_node(m, "ReduceSum", {"x"}, {"s"});
  add_node(m, "Cast", {"s"}, {"c"});
  set_int(*m.mutable_graph()->mutable_node(1), "to", onnx::TensorProto::BOOL);
  add_if(m, "c");
  EXPECT_THAT(refusal(m), HasSubstr("its condition ('c') depends on an input"));
}

TEST(If, WithinABranchReadsWhatIsAroundIt) {
  onnx::ModelProto m = empty_model();
  add_input(m, "x", {-1, 2});
  bools(m, "yes", true);
  bools(m, "no", false);
  onnx::NodeProto& outer = add_node(m, "If", {"yes"}, {"y"});
  onnx::GraphProto& then = graph(outer, "then_branch");
  add(then, "Neg", {"x"}, {"a"});
  onnx::NodeProto& inner = add(then, "If", {"no"}, {"b"});
  graph(inner, "then_branch").add_output()->set_name("a");
  onnx::GraphProto& other = graph(inner, "else_branch");
  add(other, "Mul", {"a", "x"}, {"c"});
  other.add_output()->set_name("c");
  then.add_output()->set_name("b");
  graph(outer, "else_branch").add_output()->set_name("x");
  add_output(m, "y");
  EXPECT_THAT(run_floats(m, {kPair}), ElementsAre(-1, -4));
}

TEST(If, OfAFunctionIsFoldedWhereItIsCalled) {
  onnx::ModelProto m = empty_model();
  add_input(m, "x", {-1, 2});
  bools(m, "c", true);
  onnx::FunctionProto& f = add_function(m, "Choose", {"p", "q"}, {"r"});
  onnx::NodeProto& n = add_node(f, "If", {"q"}, {"r"});
  onnx::GraphProto& then = graph(n, "then_branch");
  add(then, "Neg", {"p"}, {"x"});  // a name that the model has too
  then.add_output()->set_name("x");
  graph(n, "else_branch").add_output()->set_name("p");
  add_node(m, "Choose", {"x", "c"}, {"y"}).set_domain(f.domain());
  add_output(m, "y");
  EXPECT_THAT(run_floats(m, {kPair}), ElementsAre(1, -2));
}

// v = v + x, and v of each round; as often as M says and as long as the round's number is not
// `last`.
onnx::ModelProto adding(int64_t rounds, int64_t last, bool scans) {
  onnx::ModelProto m = empty_model();
  add_input(m, "x", {-1, 2});
  add_ints(m, "M", {}, {rounds});
  add_ints(m, "last", {}, {last});
  bools(m, "go", true);
  add_node(m, "Identity", {"x"}, {"v0"});
  onnx::NodeProto& n =
      add_node(m, "Loop", {"M", "go", "v0"}, scans ? Names{"v", "all"} : Names{"v"});
  onnx::GraphProto& body = graph(n, "body");
  for (const char* name : {"i", "going", "before"}) body.add_input()->set_name(name);
  add(body, "Add", {"before", "x"}, {"after"});
  add(body, "Equal", {"i", "last"}, {"at_last"});
  add(body, "Not", {"at_last"}, {"still"});
  for (const char* name : {"still", "after"}) body.add_output()->set_name(name);
  if (scans) body.add_output()->set_name("after");
  add_output(m, "v");
  if (scans) add_output(m, "all");
  return m;
}

TEST(Loop, IsUnrolled) {
  EXPECT_THAT(run_floats(adding(3, -1, false), {kPair}), ElementsAre(-4, 8));
  EXPECT_THAT(run_floats(adding(0, -1, false), {kPair}), ElementsAre(-1, 2));
  EXPECT_THAT(run_floats(adding(9, 1, false), {kPair}), ElementsAre(-3, 6))
      << "its condition ends it";
}

TEST(Loop, CollectsWhatEachRoundGives) {
  const std::vector<Tensor> y = run_model(import_proto(adding(3, -1, true)), {kPair});
  EXPECT_EQ(y[1].shape(), (Shape{3, 1, 2}));
  EXPECT_EQ(y[1].to_doubles(), (Doubles{-2, 4, -3, 6, -4, 8}));
  EXPECT_THAT(refusal(adding(0, -1, true)), HasSubstr("runs no time"));
  // More than one Concat takes.
  const Tensor many = run_model(import_proto(adding(2 * limits::kPorts + 1, -1, true)), {kPair})[1];
  EXPECT_EQ(many.shape(), (Shape{2 * limits::kPorts + 1, 1, 2}));
  EXPECT_EQ(many.to_doubles().back(), 2 * (2 * limits::kPorts + 2));
}

TEST(Loop, IsUnrolledUpToALimit) {
  const int64_t most = limits::kLoopTrips;
  EXPECT_EQ(refusal(adding(most - 1, -1, false)), "");
  EXPECT_THAT(run_floats(adding(most, -1, false), {kPair}),
              ElementsAre(-1.0 - static_cast<double>(most), 2.0 + 2.0 * static_cast<double>(most)));
  const std::string more = "runs more than " + std::to_string(most) + " times";
  EXPECT_THAT(refusal(adding(most + 1, -1, false)), HasSubstr(more));
  EXPECT_THAT(refusal(adding(int64_t{1} << 60, -1, false)), HasSubstr(more));
  EXPECT_EQ(refusal(adding(int64_t{1} << 60, most - 1, false)), "");
}

TEST(Loop, OfUnknownLengthIsRefused) {
  onnx::ModelProto m = adding(3, -1, false);
  m.mutable_graph()->mutable_node(1)->set_input(0, "rounds");
  add_input(m, "rounds", {}, onnx::TensorProto::INT64);
  EXPECT_THAT(refusal(m), AllOf(HasSubstr("(Loop)"), HasSubstr("how often it runs ('rounds')")));
  // Told as a constant it is known.
  EXPECT_THAT(run_model(import_proto(m, {.inputs = {{"rounds", {2}}}}), {kPair})[0].to_doubles(),
              ElementsAre(-3, 6));
}

// v = v + a row of x along `axis`, and v of each round, from the first row to the last or the other
// way.
onnx::ModelProto scanning(int64_t axis, int64_t reversed) {
  onnx::ModelProto m = empty_model();
  add_input(m, "v0", {-1, 2});
  add_input(m, "x", {-1, 3, 2});
  onnx::NodeProto& n = add_node(m, "Scan", {"v0", "x"}, {"v", "all"});
  set_int(n, "num_scan_inputs", 1);
  set_ints(n, "scan_input_axes", {axis});
  set_ints(n, "scan_output_axes", {1});
  if (reversed != 0) {
    set_ints(n, "scan_input_directions", {1});
    set_ints(n, "scan_output_directions", {1});
  }
  onnx::GraphProto& body = graph(n, "body");
  for (const char* name : {"before", "row"}) body.add_input()->set_name(name);
  add(body, "Add", {"before", "row"}, {"after"});
  for (int k = 0; k < 2; ++k) body.add_output()->set_name("after");
  add_output(m, "v");
  add_output(m, "all");
  return m;
}

TEST(Scan, IsUnrolledInEitherDirection) {
  const std::vector<Tensor> x = {floats({1, 2}, {10, 20}), floats({1, 3, 2}, {1, 2, 3, 4, 5, 6})};
  for (const int64_t reversed : {0, 1}) {
    const Model model = import_proto(scanning(-2, reversed));
    const std::vector<Tensor> y = run_model(model, x);
    EXPECT_EQ(y[0].to_doubles(), (Doubles{19, 32}));
    EXPECT_EQ(y[1].shape(), (Shape{1, 3, 2}));
    EXPECT_EQ(y[1].to_doubles(), reversed != 0 ? (Doubles{19, 32, 18, 30, 15, 26})
                                               : (Doubles{11, 22, 14, 26, 19, 32}));
    EXPECT_EQ(content_id(import_model(export_model(model))), content_id(model));
  }
}

TEST(Scan, OverTheBatchOrOfAnotherFormIsRefused) {
  EXPECT_THAT(refusal(scanning(0, 0)), AllOf(HasSubstr("(Scan)"), HasSubstr("depends on an input "
                                                                            "or on the batch")));
  onnx::ModelProto m = scanning(1, 0);
  onnx::NodeProto& n = *m.mutable_graph()->mutable_node(0);
  n.mutable_attribute(0)->set_i(3);
  EXPECT_THAT(refusal(m), HasSubstr("num_scan_inputs 3"));
  n.mutable_attribute(0)->set_i(1);
  n.mutable_attribute(2)->clear_ints();
  EXPECT_THAT(refusal(m), HasSubstr("scan_output_axes has only 0 numbers"));
  m = scanning(1, 0);
  m.mutable_opset_import(0)->set_version(8);
  EXPECT_THAT(refusal(m), HasSubstr("is of opset 8"));
}

TEST(ControlFlow, NamesTheNodeThatItLacksSomethingFor) {
  onnx::ModelProto m = empty_model();
  add_input(m, "x", {2});
  bools(m, "c", true);
  add_node(m, "If", {"c"}, {"y"}).set_name("choice");
  add_output(m, "y");
  EXPECT_THAT(refusal(m), AllOf(HasSubstr("'choice' (If)"), HasSubstr("has no then_branch")));
  onnx::NodeProto& n = *m.mutable_graph()->mutable_node(0);
  onnx::GraphProto& then = graph(n, "then_branch");
  add(then, "Neg", {"nowhere"}, {"z"});
  then.add_output()->set_name("z");
  EXPECT_THAT(refusal(m), HasSubstr("input 'nowhere' comes from nowhere"));
}

TEST(ControlFlow, GraphsAreNestedUpToALimit) {
  const auto nested = [](int depth) {
    onnx::ModelProto m = empty_model();
    add_input(m, "x", {-1, 2});
    bools(m, "c", true);
    onnx::NodeProto* n = &add_node(m, "If", {"c"}, {"y"});
    for (int d = 1; d < depth; ++d) {
      onnx::GraphProto& then = graph(*n, "then_branch");
      n = &add(then, "If", {"c"}, {"y" + std::to_string(d)});
      then.add_output()->set_name("y" + std::to_string(d));
    }
    graph(*n, "then_branch").add_output()->set_name("x");
    add_output(m, "y");
    return m;
  };
  for (const int depth : {limits::kGraphDepth - 1, limits::kGraphDepth}) {
    EXPECT_THAT(run_floats(nested(depth), {kPair}), ElementsAre(-1, 2)) << depth;
  }
  EXPECT_THAT(refusal(nested(limits::kGraphDepth + 1)), HasSubstr("graphs are nested more than"));
}

}  // namespace
}  // namespace ndtrain
