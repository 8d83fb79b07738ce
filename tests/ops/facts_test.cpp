// What each op says of itself (OpFacts) against what its reference does, on its own examples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "framework/ops/common.h"
#include "tests/ops/example_graph.h"
#include "tests/support/paths.h"

namespace ndtrain {
namespace {

using Values = std::vector<std::vector<double>>;

// One example with its types and what the reference makes of it.
struct Applied {
  const OpDef& def;
  const Example& example;
  ExampleGraph graph;
  const Attrs& attrs;  // complete
  std::vector<TensorType> in, out;
  Values y;

  Applied(const OpDef& d, const Example& e)
      : def(d), example(e), graph(build_example(d, e)), attrs(node().attrs) {
    for (const ValueId v : node().inputs) in.push_back(v == kNone ? none() : graph.graph.type(v));
    for (const ValueId v : graph.outputs) out.push_back(graph.graph.type(v));
    graph.values.resize(in.size());
    y = run(graph.values);
  }
  static TensorType none() { return {DType::kNone, Shape{}}; }
  const Node& node() const { return graph.graph.nodes().back(); }
  const Values& x() const { return graph.values; }
  Values run(const Values& given) const { return run_reference(def, attrs, in, out, given); }
  bool has(size_t i) const { return i < in.size() && in[i].dtype != DType::kNone; }
  size_t data() const { return data_inputs(def, in.size()); }
};

std::set<double> elements(const Applied& r) {
  std::set<double> all;
  for (size_t i = 0; i < r.data(); ++i) all.insert(r.x()[i].begin(), r.x()[i].end());
  return all;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

class Facts : public ::testing::TestWithParam<const OpDef*> {
 protected:
  // f(run) for every example; `f` says whether it looked at it. At least one must be looked at.
  template <typename F>
  void for_examples(F f) const {
    const OpDef& def = *GetParam();
    size_t looked_at = 0;
    for (size_t i = 0; i < def.examples.size(); ++i) {
      SCOPED_TRACE(describe(def, i));
      if (build_example(def, def.examples[i]).graph.nodes().empty()) {
        ++looked_at;  // its inputs are known, and so is what it gives
        continue;
      }
      const Applied applied(def, def.examples[i]);
      looked_at += f(applied) ? 1 : 0;
    }
    EXPECT_GT(looked_at, 0U) << "no example shows it";
  }
  const OpFacts& facts() const { return GetParam()->facts; }
};

// Each element of the output is the op applied to the elements that broadcasting brings there.
TEST_P(Facts, AMapIsApplied) {
  if (facts().kind != OpKind::kMap) GTEST_SKIP();
  for_examples([](const Applied& r) {
    std::vector<Shape> shapes;
    for (const TensorType& t : r.in) shapes.push_back(t.shape);
    std::vector<TensorType> one_in, one_out;
    for (const TensorType& t : r.in) one_in.push_back({t.dtype, Shape{}});
    for (const TensorType& t : r.out) one_out.push_back({t.dtype, Shape{}});
    for_each_broadcast(r.out[0].shape, shapes, [&](int64_t i, std::span<const int64_t> at) {
      Values x(r.in.size());
      for (size_t k = 0; k < x.size(); ++k) {
        if (r.has(k)) x[k] = {r.x()[k].at(static_cast<size_t>(at[k]))};
      }
      const double y = run_reference(r.def, r.attrs, one_in, one_out, x)[0][0];
      EXPECT_TRUE(same(y, r.y[0][static_cast<size_t>(i)])) << "element " << i;
    });
    return r.out[0].shape.count() > 0;
  });
}

TEST_P(Facts, AMoveHasItsInputsElements) {
  if (facts().kind != OpKind::kMove) GTEST_SKIP();
  for_examples([](const Applied& r) {
    const std::set<double> there = elements(r);
    for (const double v : r.y[0]) EXPECT_TRUE(there.contains(v)) << v;
    return !r.y[0].empty();
  });
}

TEST_P(Facts, AViewHasThemInTheirOrder) {
  if (!facts().view) GTEST_SKIP();
  EXPECT_EQ(facts().kind, OpKind::kMove);
  for_examples([](const Applied& r) {
    EXPECT_EQ(r.y[0], r.x()[0]);
    return r.y[0].size() > 1;
  });
}

// A view is no other op.
TEST_P(Facts, WhatIsNoViewMovesOrComputes) {
  if (facts().view || facts().kind != OpKind::kMove) GTEST_SKIP();
  if (GetParam()->name == "Reorder") GTEST_SKIP() << "its elements lie otherwise in memory";
  for_examples([](const Applied& r) { return r.y[0] != r.x()[0]; });
}

// The part of a tensor that is image `b` of `images`.
std::vector<double> image_of(const std::vector<double>& all, int64_t b, int64_t images) {
  const auto each = static_cast<int64_t>(all.size()) / images;
  return {all.begin() + b * each, all.begin() + (b + 1) * each};
}

TEST_P(Facts, AnImageDependsOnItsOwn) {
  if (!facts().per_image) GTEST_SKIP();
  for_examples([](const Applied& r) {
    const Shape& y = r.out[0].shape;
    if (y.rank() < 2 || y[0] < 2 || y.count() == 0) return false;
    if (!r.def.facts.per_image(r.attrs, y.rank())) return false;
    for (int64_t b = 0; b < y[0]; ++b) {
      std::vector<TensorType> in = r.in, out = r.out;
      Values x = r.x();
      const auto cut = [&](TensorType& t) {
        Ints dims(t.shape.dims().begin(), t.shape.dims().end());
        dims[0] = 1;
        t.shape = Shape(dims);
      };
      for (size_t k = 0; k < in.size(); ++k) {
        const bool images = in[k].shape.rank() == y.rank() && in[k].shape[0] == y[0];
        if (!r.has(k) || !images || !r.def.facts.has_images(static_cast<int>(k))) continue;
        cut(in[k]);
        x[k] = image_of(x[k], b, y[0]);
      }
      for (TensorType& t : out) {
        if (t.shape.rank() == 0 || t.shape[0] != y[0]) return false;  // statistics beside it
        cut(t);
      }
      const Values alone = run_reference(r.def, r.attrs, in, out, x);
      EXPECT_EQ(alone[0], image_of(r.y[0], b, y[0])) << "image " << b;
    }
    return true;
  });
}

bool bf16_at(const Applied& r, size_t i) { return r.has(i) && r.in[i].dtype == DType::kBF16; }

// Every backend runs the examples, so that each has a kernel for what may become bf16.
TEST_P(Facts, WhatIsLoweredHasAnExampleInBf16) {
  if (facts().rounding == Rounding::kWide) GTEST_SKIP();
  for_examples([](const Applied& r) {
    if (!std::ranges::any_of(r.in, [](const TensorType& t) { return t.dtype == DType::kBF16; })) {
      return false;
    }
    return r.out[0].dtype == DType::kBF16;
  });
}

TEST_P(Facts, AWideInputStaysF32BesideBf16) {
  if (facts().wide_inputs == 0) GTEST_SKIP();
  for_examples([](const Applied& r) {
    bool any = false;
    for (size_t i = 1; i < r.in.size(); ++i) {
      const bool wide = r.def.facts.wide_inputs >> i & 1;
      any |= wide && r.has(i) && bf16_at(r, 0) && r.in[i].dtype == DType::kF32;
    }
    return any;
  });
}

// Of numbers with 8 significant bits the results have no more.
TEST_P(Facts, AnExactOpGivesWhatBf16Holds) {
  if (facts().rounding != Rounding::kExact) GTEST_SKIP();
  for_examples([](const Applied& r) {
    if (r.out[0].dtype != DType::kF32) return false;
    Values x = r.x();
    for (size_t i = 0; i < x.size(); ++i) {
      if (!r.has(i) || r.in[i].dtype != DType::kF32) continue;
      for (double& v : x[i]) v = rounded(v, DType::kBF16);
    }
    const Values y = r.run(x);
    for (const double v : y[0]) EXPECT_TRUE(same(v, rounded(v, DType::kBF16))) << v;
    return !r.y[0].empty();
  });
}

TEST_P(Facts, ASignIsKept) {
  if (facts().sign == Sign::kAny) GTEST_SKIP();
  for_examples([](const Applied& r) {
    Values x = r.x();
    if (r.def.facts.sign == Sign::kAsInputs) {
      const size_t inputs = r.def.facts.kind == OpKind::kMove ? r.data() : x.size();
      for (size_t i = 0; i < inputs; ++i) {
        if (r.def.shape_inputs >> i & 1) continue;
        for (double& v : x[i]) v = std::abs(v);
      }
    }
    const Values y = r.run(x);
    for (const double v : y[0]) EXPECT_FALSE(v < 0) << v;
    return !r.y[0].empty();
  });
}

TEST_P(Facts, TheRankAndTheDtypeAreInferredAsSaid) {
  for_examples([](const Applied& r) {
    const OpFacts& f = r.def.facts;
    if (r.in.empty()) return true;
    int largest = 0;
    for (const TensorType& t : r.in) largest = std::max(largest, t.shape.rank());
    const int rank = r.out[0].shape.rank();
    if (f.kind == OpKind::kMap || f.rank == RankRule::kLargest) {
      EXPECT_EQ(rank, largest);
    } else if (f.rank == RankRule::kFirst) {
      EXPECT_EQ(rank, r.in[0].shape.rank());
    } else if (f.rank == RankRule::kTwo) {
      EXPECT_EQ(rank, 2);
    }
    if (!f.own_dtype) {
      EXPECT_EQ(r.out[0].dtype, r.in[0].dtype);
    }
    return true;
  });
}

// What is added to it appears in the result, where no function follows.
TEST_P(Facts, AResidualIsAdded) {
  if (facts().residual < 0) GTEST_SKIP();
  EXPECT_EQ(facts().kind, OpKind::kProduct);
  const auto residual = static_cast<size_t>(facts().residual);
  for_examples([&](const Applied& r) {
    if (!r.has(residual)) return false;
    EXPECT_EQ(r.in[residual].shape, r.out[0].shape);
    Values x = r.x();
    for (double& v : x[residual]) v += 1;
    return r.run(x)[0] != r.y[0];
  });
}

TEST_P(Facts, AProductSumsTerms) {
  if (facts().kind != OpKind::kProduct) GTEST_SKIP();
  EXPECT_NE(GetParam()->terms, nullptr);
}

TEST_P(Facts, ACommutativeOpTakesItsInputsInEitherOrder) {
  if (!facts().commutative) GTEST_SKIP();
  EXPECT_EQ(GetParam()->max_inputs, 2);
  for_examples([](const Applied& r) {
    const std::vector<TensorType> in = {r.in[1], r.in[0]};
    EXPECT_EQ(run_reference(r.def, r.attrs, in, r.out, Values{r.x()[1], r.x()[0]}), r.y);
    return r.x()[0] != r.x()[1];
  });
}

// What lies within the limits stays, what does not is one of them.
TEST_P(Facts, AClampHoldsWithinLimits) {
  if (!facts().clamp) GTEST_SKIP();
  EXPECT_TRUE(facts().step);
  for_examples([](const Applied& r) {
    Values x = r.x();
    const std::vector<double>& y = r.y[0];
    if (y.empty()) return false;
    const auto [low, high] = std::ranges::minmax(y);
    for (size_t i = 0; i < y.size(); ++i) {
      EXPECT_TRUE(y[i] == x[0][i] || y[i] == low || y[i] == high) << x[0][i] << " becomes " << y[i];
    }
    const bool shows = y != x[0];
    x[0] = y;
    EXPECT_EQ(r.run(x)[0], y);
    return shows;
  });
}

TEST_P(Facts, AStepIsAMapOfFloats) {
  if (!facts().step) GTEST_SKIP();
  EXPECT_EQ(facts().kind, OpKind::kMap);
  EXPECT_FALSE(facts().own_dtype);
}

std::vector<const OpDef*> with_reference() {
  std::vector<const OpDef*> defs;
  for (const OpDef& def : all_ops()) {
    if (def.reference && !def.examples.empty()) defs.push_back(&def);
  }
  return defs;
}

INSTANTIATE_TEST_SUITE_P(Ops, Facts, ::testing::ValuesIn(with_reference()),
                         [](const auto& of) { return std::string(of.param->name); });

// golden/onnx_ops.txt is what onnx's own table of operators says, up to opset 17.
TEST(OnnxOps, AreThoseOfItsTable) {
  std::ifstream in(support::source_path("/tests/ops/golden/onnx_ops.txt"));
  std::map<std::string, int> first;
  std::string name;
  for (int since = 0; in >> name >> since;) first[name] = since;
  ASSERT_GT(first.size(), 150U);
  for (const OpDef& def : all_ops()) {
    const auto it = first.find(std::string(def.name));
    if (it != first.end()) {
      EXPECT_EQ(def.facts.onnx, it->second) << def.name;
    } else {
      EXPECT_TRUE(def.facts.onnx == 0 || def.facts.onnx > 17) << def.name;
    }
  }
}

// golden/onnx_types.txt is what onnx's table says of opsets 18 to 28 (onnx_types.py makes it).
TEST(OnnxOps, TakeTypesFromTheOpsetsOfItsTable) {
  std::ifstream in(support::source_path("/tests/ops/golden/onnx_types.txt"));
  std::map<std::string, std::set<std::pair<int, std::string>>> table;
  std::string name, type;
  for (int since = 0; in >> name >> type >> since;) table[name].emplace(since, type);
  ASSERT_GT(table.size(), 40U);
  for (const OpDef& def : all_ops()) {
    if (def.facts.onnx == 0 || def.facts.onnx > 17) continue;
    std::set<std::pair<int, std::string>> said;
    for (const OnnxLater& later : def.facts.onnx_later) {
      if (later.type != DType::kNone) said.emplace(later.since, name_of(later.type));
    }
    EXPECT_EQ(said, table[std::string(def.name)]) << def.name;
  }
}

// Export finds these by the op's own attributes and defaults.
TEST_P(Facts, WhatOnnxSaysLaterIsOfAnAttributeThatTheOpHas) {
  for (const OnnxLater& later : facts().onnx_later) {
    if (later.attribute.empty()) continue;
    const auto& attrs = GetParam()->attrs;
    const auto spec = std::ranges::find(attrs, later.attribute, &AttrSpec::name);
    ASSERT_NE(spec, attrs.end()) << later.attribute;
    const auto kind = later.text.empty() ? AttrSpec::Kind::kInt : AttrSpec::Kind::kString;
    EXPECT_EQ(spec->kind, kind) << later.attribute;
    EXPECT_TRUE(spec->fallback) << later.attribute;
  }
}

}  // namespace
}  // namespace ndtrain
