// Comparisons and logic, with NumPy's broadcasting, and the choice made by them: Where.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

void infer_to_bool(InferContext& c) {
  require_same_dtype(c, 0, 1);
  c.out = {{DType::kBool, broadcast(c.shape(0), c.shape(1), "broadcast")}};
}

void infer_order(InferContext& c) {
  require(c, 0, is_number, "a numeric dtype");
  infer_to_bool(c);
}

void infer_logic(InferContext& c) {
  require(c, 0, is_bool, "bool");
  infer_to_bool(c);
}

template <auto F>
void map2(const ReferenceContext& c) {
  const Shape shapes[] = {c.shape(0), c.shape(1)};
  for_each_broadcast(c.out_shape(), shapes, [&](int64_t i, std::span<const int64_t> at) {
    c.out[0][i] = F(c.in[0][at[0]], c.in[1][at[1]]) ? 1 : 0;
  });
}

void infer_where(InferContext& c) {
  require(c, 0, is_bool, "bool");
  require_same_dtype(c, 1, 2);
  const Shape values = broadcast(c.shape(1), c.shape(2), "broadcast");
  c.out = {{c.in[1].dtype, broadcast(c.shape(0), values, "broadcast")}};
}

void where_reference(const ReferenceContext& c) {
  const Shape shapes[] = {c.shape(0), c.shape(1), c.shape(2)};
  for_each_broadcast(c.out_shape(), shapes, [&](int64_t i, std::span<const int64_t> at) {
    c.out[0][i] = c.in[0][at[0]] != 0 ? c.in[1][at[1]] : c.in[2][at[2]];
  });
}

std::vector<ValueId> where_gradient(GradientContext& c) {
  const ValueId zero = scalar_like(c.g, 0, c.dy[0]), condition = c.x(0);
  std::vector<ValueId> dx(3, kNone);
  for (const size_t i : {1, 2}) {
    if (!c.wanted[i]) continue;
    const Shape shape = c.shape(c.x(i));
    const ValueId yes = i == 1 ? c.dy[0] : zero, no = i == 1 ? zero : c.dy[0];
    dx[i] = unbroadcast(c.g, c.g.add1("Where", {condition, yes, no}), shape);
  }
  return dx;
}

// A range of few integers, so that equality happens.
std::vector<Example> order_examples(DType first, const std::vector<DType>& others) {
  const auto few = [](DType t, Shape s) {
    ExampleInput e = ExampleInput::range(s, 0, 2, t);
    if (is_float(t)) {
      e.values.resize(static_cast<size_t>(s.count()));
      for (size_t i = 0; i < e.values.size(); ++i) {
        e.values[i] = static_cast<double>((i * 7 + e.values.size()) % 3);
      }
    }
    return e;
  };
  std::vector<Example> e = {
      {{few(first, {3, 4, 5}), few(first, {3, 4, 5})}},
      {{few(first, {3, 4}), few(first, {4})}},
      {{few(first, {5}), few(first, {2, 3, 5})}},
      {{few(first, {2, 1}), few(first, {1, 3})}},
      {{few(first, {}), few(first, {})}},
      {{few(first, {4}), few(first, {})}},
      {{few(first, {0, 3}), few(first, {3})}},
  };
  for (const DType t : others) e.push_back({{few(t, {3, 4}), few(t, {4})}});
  return e;
}

std::vector<Example> where_examples() {
  const ExampleInput c34(DType::kBool, {3, 4});
  std::vector<Example> e = {
      {{c34, {3, 4}, {3, 4}}},
      {{c34, {4}, Shape{}}},
      {{{DType::kBool, {3, 1}}, {1, 4}, {2, 1, 1}}},
      {{{DType::kBool, {}}, {2, 3}, {3}}},
      {{{DType::kBool, {}}, Shape{}, Shape{}}},
      {{{DType::kBool, {0, 3}}, {3}, {3}}},
  };
  for (const DType t : kMovedDTypes) {
    e.push_back({{c34, {t, {4}}, {t, {3, 4}}}});
  }
  return e;
}

OpDef predicate(std::string_view name, int onnx, void (*infer)(InferContext&),
                void (*reference)(const ReferenceContext&), std::vector<Example> examples) {
  return {.name = name,
          .facts = mapping({.onnx = onnx, .sign = Sign::kNeverNegative, .own_dtype = true}),
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer,
          .reference = reference,
          .examples = std::move(examples)};
}

}  // namespace

std::vector<OpDef> compare_ops() {
  const std::vector<DType> numbers = {DType::kF64, DType::kF16, DType::kI8,  DType::kU8,
                                      DType::kI16, DType::kI32, DType::kI64, DType::kU64};
  std::vector<DType> all = numbers;
  all.push_back(DType::kBool);
  const std::vector<Example> order = order_examples(DType::kF32, numbers);
  const std::vector<Example> logic = order_examples(DType::kBool, {});
  return {
      predicate("Equal", 1, infer_to_bool, map2<[](double a, double b) { return a == b; }>,
                order_examples(DType::kF32, all)),
      predicate("Less", 1, infer_order, map2<[](double a, double b) { return (a < b); }>, order),
      predicate("LessOrEqual", 12, infer_order, map2<[](double a, double b) { return (a <= b); }>,
                order),
      predicate("Greater", 1, infer_order, map2<[](double a, double b) { return (a > b); }>, order),
      predicate("GreaterOrEqual", 12, infer_order,
                map2<[](double a, double b) { return (a >= b); }>, order),
      predicate("And", 1, infer_logic, map2<[](double a, double b) { return a != 0 && b != 0; }>,
                logic),
      predicate("Or", 1, infer_logic, map2<[](double a, double b) { return a != 0 || b != 0; }>,
                logic),
      predicate("Xor", 1, infer_logic,
                map2<[](double a, double b) { return (a != 0) != (b != 0); }>, logic),
      {.name = "Where",
       .facts = mapping({.onnx = 9, .rounding = Rounding::kExact, .own_dtype = true}),
       .min_inputs = 3,
       .max_inputs = 3,
       .infer = infer_where,
       .reference = where_reference,
       .gradient = where_gradient,
       .examples = where_examples()},
  };
}

}  // namespace ndtrain
