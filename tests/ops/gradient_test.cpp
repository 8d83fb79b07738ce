// Every op of the table against itself: inferred types against what the reference fills, gradients
// against central finite differences of the double reference.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "framework/core/rng.h"
#include "framework/graph/differentiate.h"
#include "framework/runtime/interpreter.h"
#include "tests/ops/example_graph.h"

namespace ndtrain {
namespace {

constexpr double kStep = 1e-6;
constexpr double kTolerance = 1e-7;
constexpr int64_t kChecked = 64;  // elements of one input; larger ones are sampled evenly

bool in_double(DType t) {
  return t == DType::kF32 || t == DType::kF64;
}  // not rounded, see rounded()

bool differentiable(const OpDef& def, const Example& e) {
  if ((!def.gradient && !def.compose) || !e.check_gradient) return false;
  bool any = false;
  for (const ExampleInput& in : e.inputs) {
    if (!is_float(in.type.dtype)) continue;
    if (!in_double(in.type.dtype)) return false;
    any |= !in.known;
  }
  return any;
}

bool all_in_double(const ExampleGraph& e) {
  for (const ValueId y : e.outputs) {
    const DType t = e.graph.type(y).dtype;
    if (is_float(t) && !in_double(t)) return false;
  }
  return true;
}

// The example's outputs are those of what its node is composed of.
void compose(ExampleGraph& e) {
  const Node node = e.graph.nodes().back();
  e.outputs = composed(e.graph, node);
  e.graph.set_outputs(e.outputs);
}

class Gradient : public ::testing::TestWithParam<ExampleCase> {
 protected:
  // sum of dy * y over the outputs that have a seed.
  double loss(const DoubleValues& given) const {
    const DoubleValues values = interpret(forward_, given);
    double sum = 0;
    for (size_t k = 0; k < seeds_.size(); ++k) {
      const std::vector<double>& y = values.at(seeded_[k]);
      for (size_t i = 0; i < y.size(); ++i) sum += seeds_[k][i] * y[i];
    }
    return sum;
  }

  double difference(DoubleValues given, ValueId x, size_t i) const {
    const double at = given.at(x)[i];
    given.at(x)[i] = at + kStep;
    const double above = loss(given);
    given.at(x)[i] = at - kStep;
    return (above - loss(given)) / (2 * kStep);
  }

  // The analytic gradients of `wrt`, with random seeds for every float output that is computed.
  std::vector<std::vector<double>> analytic(ExampleGraph& e, const std::vector<ValueId>& wrt) {
    forward_ = e.graph;
    std::vector<ValueId> seeds;
    DoubleValues given = inputs(e);
    for (size_t k = 0; k < e.outputs.size(); ++k) {
      const TensorType type = e.graph.type(e.outputs[k]);
      if (!is_float(type.dtype) || e.graph.value(e.outputs[k]).kind != ValueKind::kComputed)
        continue;
      seeds.push_back(e.graph.add_input("dy" + std::to_string(k), type));
      seeded_.push_back(e.outputs[k]);
      seeds_.push_back(example_values(ExampleInput(type.shape), "dy" + std::to_string(k)));
      given[seeds.back()] = seeds_.back();
    }
    const std::vector<ValueId> dx = differentiate(e.graph, seeded_, seeds, wrt);
    const DoubleValues values = interpret(e.graph, given);
    std::vector<std::vector<double>> result;
    for (size_t k = 0; k < wrt.size(); ++k) {
      EXPECT_EQ(e.graph.type(dx[k]), e.graph.type(wrt[k])) << "the gradient has another type";
      const auto it = values.find(dx[k]);
      result.push_back(it != values.end() ? it->second : e.graph.value(dx[k]).data.to_doubles());
    }
    return result;
  }

  static DoubleValues inputs(const ExampleGraph& e) {
    DoubleValues given;
    for (size_t i = 0; i < e.inputs.size(); ++i) {
      if (e.inputs[i] != kNone) given[e.inputs[i]] = e.values[i];
    }
    return given;
  }

  Graph forward_;
  std::vector<ValueId> seeded_;
  std::vector<std::vector<double>> seeds_;
};

TEST_P(Gradient, EqualsFiniteDifferences) {
  const ExampleCase& c = GetParam();
  ExampleGraph e = build_example(*c.def, c.example());
  ASSERT_TRUE(all_in_double(e)) << describe(*c.def, c.index)
                                << ": rounds to 16 bits; set check_gradient = false";
  if (c.def->compose) compose(e);
  std::vector<ValueId> wrt;
  for (size_t i = 0; i < e.inputs.size(); ++i) {
    const ExampleInput& spec = c.example().inputs[i];
    if (is_float(spec.type.dtype) && !spec.known) wrt.push_back(e.inputs[i]);
  }
  const DoubleValues given = inputs(e);
  const auto dx = analytic(e, wrt);
  for (size_t k = 0; k < wrt.size(); ++k) {
    const int64_t n = e.graph.shape(wrt[k]).count();
    ASSERT_EQ(static_cast<int64_t>(dx[k].size()), n) << describe(*c.def, c.index);
    double scale = 1;
    for (const double d : dx[k]) scale = std::max(scale, std::abs(d));
    const int64_t stride = std::max<int64_t>(1, n / kChecked);
    for (int64_t i = 0; i < n; i += stride) {
      const double expected = difference(given, wrt[k], static_cast<size_t>(i));
      ASSERT_NEAR(dx[k][static_cast<size_t>(i)], expected, kTolerance * scale)
          << describe(*c.def, c.index) << "\nelement " << i << " of input "
          << e.graph.value(wrt[k]).name << "; repeat with --gtest_filter='*" << name_of(c) << "'";
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<ExampleCase>& info) {
  return name_of(info.param);
}

INSTANTIATE_TEST_SUITE_P(AllOps, Gradient, ::testing::ValuesIn(example_cases(differentiable)),
                         test_name);

// Runs the reference of an example by itself: a node that was folded away when the graph was built
// (Shape, Constant) must agree with its reference too.
std::vector<std::vector<double>> reference_of(const ExampleCase& c, const ExampleGraph& e) {
  std::vector<TensorType> in, out;
  for (const ExampleInput& spec : c.example().inputs) in.push_back(spec.type);
  for (const ValueId y : e.outputs) out.push_back(e.graph.type(y));
  if (!e.graph.nodes().empty()) {
    return run_reference(*c.def, e.graph.nodes()[0].attrs, in, out, e.values);
  }
  Attrs attrs = c.example().attrs;
  for (const AttrSpec& s : c.def->attrs) {
    if (s.fallback && !attrs.has(s.name)) attrs.set(std::string(s.name), *s.fallback);
  }
  return run_reference(*c.def, attrs, in, out, e.values);
}

class Reference : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(Reference, FillsWhatInferPromises) {
  for (size_t k = 0; k < GetParam()->examples.size(); ++k) {
    SCOPED_TRACE(describe(*GetParam(), k));
    const ExampleCase c{GetParam(), k};
    const ExampleGraph e = build_example(*c.def, c.example());
    const auto y = reference_of(c, e);
    ASSERT_EQ(y.size(), e.outputs.size());
    for (size_t o = 0; o < y.size(); ++o) {
      const Value& value = e.graph.value(e.outputs[o]);
      EXPECT_EQ(static_cast<int64_t>(y[o].size()), value.type.shape.count());
      if (value.data.defined()) {
        EXPECT_EQ(value.data.to_doubles(), y[o]);
      }
      for (const double v : y[o]) ASSERT_FALSE(std::isnan(v));
    }
  }
}

std::vector<const OpDef*> ops() {
  std::vector<const OpDef*> list;
  for (const OpDef& def : all_ops()) list.push_back(&def);
  return list;
}

std::string op_name(const ::testing::TestParamInfo<const OpDef*>& info) {
  return std::string(info.param->name);
}

INSTANTIATE_TEST_SUITE_P(AllOps, Reference, ::testing::ValuesIn(ops()), op_name);

// What is bound computes what the op's reference says, at every example.
class Composed : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(Composed, EqualsTheReference) {
  const OpDef& def = *GetParam();
  for (size_t k = 0; k < def.examples.size(); ++k) {
    SCOPED_TRACE(describe(def, k));
    ExampleGraph e = build_example(def, def.examples[k]);
    ASSERT_FALSE(e.graph.nodes().empty());
    const Node node = e.graph.nodes().back();
    const std::vector<ValueId> made = composed(e.graph, node);
    for (const ValueId v : made) e.graph.mark_output(v);
    DoubleValues given;
    for (size_t i = 0; i < e.inputs.size(); ++i) {
      if (e.inputs[i] != kNone) given[e.inputs[i]] = e.values[i];
    }
    const DoubleValues values = interpret(e.graph, given);
    for (size_t o = 0; o < made.size(); ++o) {
      EXPECT_EQ(e.graph.type(made[o]), e.graph.type(e.outputs[o]));
      // 16-bit floats are rounded behind each of the parts.
      const DType t = e.graph.type(made[o]).dtype;
      const double allowed = !is_float(t) || in_double(t) ? 1e-6 : 1e-2;
      const std::vector<double>&got = values.at(made[o]), &want = values.at(e.outputs[o]);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_NEAR(got[i], want[i], allowed * (1 + std::abs(want[i]))) << "element " << i;
      }
    }
    for (const Node& n : e.graph.nodes()) {
      if (n.op != def.name) {
        EXPECT_FALSE(find_op(n.op).compose) << n.op;
      }
    }
  }
}

std::vector<const OpDef*> composed_ops() {
  std::vector<const OpDef*> list;
  for (const OpDef& def : all_ops()) {
    if (def.compose) list.push_back(&def);
  }
  return list;
}

INSTANTIATE_TEST_SUITE_P(AllOps, Composed, ::testing::ValuesIn(composed_ops()), op_name);

TEST(OpTable, EveryOpHasExamplesInferAndReference) {
  for (const OpDef& def : all_ops()) {
    EXPECT_FALSE(def.examples.empty()) << def.name << " has no examples";
    EXPECT_TRUE(def.infer) << def.name;
    EXPECT_TRUE(def.reference) << def.name;
  }
}

TEST(OpTable, EveryGradientIsCheckedByAnExample) {
  for (const OpDef& def : all_ops()) {
    if (!def.gradient && !def.compose) continue;
    bool checked = false, flat = true;
    for (const Example& e : def.examples) {
      checked |= differentiable(def, e);
      flat &= !e.check_gradient;
    }
    // Floor and the like are flat: no gradient comes back, and no example may claim one.
    EXPECT_TRUE(checked || flat) << def.name;
  }
}

TEST(OpTable, NoAttributeIsNamedTwice) {
  for (const OpDef& def : all_ops()) {
    std::set<std::string_view> names;
    for (const AttrSpec& s : def.attrs) EXPECT_TRUE(names.insert(s.name).second) << def.name;
  }
}

}  // namespace
}  // namespace ndtrain
