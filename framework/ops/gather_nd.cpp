// GatherND and ScatterND: the last dim of the indices is a coordinate into the leading dims of the
// data, and what lies behind it is taken or put as a whole. Of places that are named more than once
// ScatterND keeps the last, or adds, multiplies, … all in their order.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

// The extent of one coordinate; throws Error unless it fits the data behind `batch` dims.
int64_t coordinate(const Shape& data, const Shape& indices, int64_t batch) {
  if (indices.rank() < 1) throw Error("the indices are ", indices, ", must have rank 1 or more");
  const int64_t k = indices[-1];
  if (k < 1 || batch + k > data.rank()) {
    throw Error("coordinates of ", k, " dims do not fit ", data, " behind ", batch, " batch dims");
  }
  return k;
}

// Where coordinate `i` of `indices` begins in data's dims [batch, batch + k), in elements.
int64_t place(const Shape& data, int batch, int64_t k, const std::vector<double>& indices,
              int64_t i) {
  int64_t at = 0;
  for (int64_t d = 0; d < k; ++d) {
    const int dim = batch + static_cast<int>(d);
    const int64_t n = data[dim], v = static_cast<int64_t>(indices[static_cast<size_t>(i * k + d)]);
    if (v < -n || v >= n) throw Error("index ", v, " is not in dim ", dim, " of ", data);
    at += (v < 0 ? v + n : v) * data.count(dim + 1, data.rank());
  }
  return at;
}

void gather_infer(InferContext& c) {
  require(c, 1, is_index, "i32 or i64");
  const Shape &x = c.shape(0), &at = c.shape(1);
  const int64_t batch = c.attrs.i("batch_dims");
  if (batch < 0 || batch >= x.rank() || batch >= at.rank()) {
    throw Error("batch_dims is ", batch, " for ", x, " and indices ", at);
  }
  const int64_t k = coordinate(x, at, batch);
  for (int d = 0; d < batch; ++d) {
    if (x[d] != at[d]) throw Error("batch dim ", d, " differs: ", x, " and indices ", at);
  }
  std::vector<int64_t> dims(at.dims().begin(), at.dims().end() - 1);
  dims.insert(dims.end(), x.dims().begin() + batch + k, x.dims().end());
  c.out = {{c.in[0].dtype, Shape(std::move(dims))}};
}

void gather_reference(const ReferenceContext& c) {
  const Shape &x = c.shape(0), &at = c.shape(1);
  const int batch = static_cast<int>(c.attrs.i("batch_dims"));
  const int64_t k = at[-1], block = x.count(batch + static_cast<int>(k), x.rank());
  const int64_t per_batch = at.count(batch, at.rank() - 1), data = x.count(batch, x.rank());
  for (int64_t i = 0; i < at.count(0, at.rank() - 1); ++i) {
    const int64_t from = i / per_batch * data + place(x, batch, k, c.in[1], i);
    for (int64_t e = 0; e < block; ++e) c.out[0][i * block + e] = c.in[0][from + e];
  }
}

// The indices with the batch dims, which count along, as coordinates too.
ValueId full_coordinates(GradientContext& c) {
  const auto batch = static_cast<int>(c.node.attrs.i("batch_dims"));
  if (batch == 0) return c.x(1);
  const TensorType at = c.g.type(c.x(1));
  std::vector<int64_t> dims(at.shape.dims().begin(), at.shape.dims().end() - 1);
  const Shape places(dims);
  dims.push_back(batch);
  std::vector<double> counted;
  for (int64_t i = 0; i < places.count(); ++i) {
    for (int d = 0; d < batch; ++d) {
      counted.push_back(static_cast<double>(i / places.count(d + 1, places.rank()) % places[d]));
    }
  }
  const ValueId first =
      c.g.add_constant("", Tensor::from_doubles({at.dtype, Shape(std::move(dims))}, counted));
  return c.g.add1("Concat", {first, c.x(1)}, {{"axis", int64_t{-1}}});
}

ValueId zeros_like(Graph& g, ValueId v) {
  const Shape shape = g.shape(v);
  return expand(g, scalar_like(g, 0, v), shape);
}

std::vector<ValueId> gather_gradient(GradientContext& c) {
  return {c.g.add1("ScatterND", {zeros_like(c.g, c.x(0)), full_coordinates(c), c.dy[0]},
                   {{"reduction", std::string("add")}}),
          kNone};
}

void scatter_infer(InferContext& c) {
  require(c, 1, is_index, "i32 or i64");
  require_same_dtype(c, 0, 2);
  const std::string& how = c.attrs.s("reduction");
  if (how != "none" && how != "add" && how != "mul" && how != "min" && how != "max") {
    throw Error("reduction is '", how, "', must be none, add, mul, min or max");
  }
  if (how != "none") require(c, 0, is_number, "numbers");
  const Shape &x = c.shape(0), &at = c.shape(1);
  const int64_t k = coordinate(x, at, 0);
  std::vector<int64_t> dims(at.dims().begin(), at.dims().end() - 1);
  dims.insert(dims.end(), x.dims().begin() + k, x.dims().end());
  if (c.shape(2).dims() != dims) {
    throw Error("updates are ", c.in[2], ", must be ", Shape(dims), " for ", x, " at ", at);
  }
  c.out = {c.in[0]};
}

double combine(const std::string& how, double a, double b) {
  if (how == "add") return a + b;
  if (how == "mul") return a * b;
  if (how == "min") return std::min(a, b);
  if (how == "max") return std::max(a, b);
  return b;
}

void scatter_reference(const ReferenceContext& c) {
  const Shape &x = c.shape(0), &at = c.shape(1);
  const int64_t k = at[-1], block = x.count(static_cast<int>(k), x.rank());
  const std::string& how = c.attrs.s("reduction");
  c.out[0] = c.in[0];
  for (int64_t i = 0; i < at.count(0, at.rank() - 1); ++i) {
    const int64_t to = place(x, 0, k, c.in[1], i);
    for (int64_t e = 0; e < block; ++e) {
      double& y = c.out[0][to + e];
      y = combine(how, y, c.in[2][i * block + e]);
    }
  }
}

// With places that differ: of those named twice only one update counts.
std::vector<ValueId> scatter_gradient(GradientContext& c) {
  const std::string& how = c.node.attrs.s("reduction");
  if (how != "none" && how != "add") throw Error("reduction ", how, " is not differentiable");
  const ValueId dy = c.dy[0];
  const ValueId dupdates = c.wanted[2] ? c.g.add1("GatherND", {dy, c.x(1)}) : kNone;
  if (how == "add" || !c.wanted[0]) return {dy, kNone, dupdates};
  return {c.g.add1("ScatterND", {dy, c.x(1), zeros_like(c.g, c.x(2))}), kNone, dupdates};
}

ExampleInput at(Shape s, std::vector<double> v, DType t = DType::kI64) {
  return ExampleInput::given(t, std::move(s), std::move(v));
}

Attrs how(const char* reduction) { return {{"reduction", std::string(reduction)}}; }

std::vector<Example> gather_examples() {
  const Attrs batched{{"batch_dims", int64_t{1}}};
  return in_moved_dtypes({{{{2, 2}, at({2, 2}, {0, 0, -1, 1})}},
                          {{{2, 3, 2}, at({2, 1, 2}, {0, 1, 1, 0})}},
                          {{{2, 3}, at({2, 1}, {1, 0})}},
                          {{{2, 3, 2}, at({2, 1}, {1, 0}, DType::kI32)}, batched},
                          {{{2, 3, 4}, at({2, 5, 1}, {1, 0, 2, 2, -3, 0, 0, -1, 1, 1})}, batched},
                          {{{9, 7, 40}, at({3, 2}, {8, 0, 4, -2, 8, 0})}},
                          {{{2, 3}, ExampleInput(DType::kI64, {0, 1})}}},
                         [](DType t) {
                           return Example{{{t, {4, 3}}, at({2, 1}, {3, -4})}};
                         });
}

std::vector<Example> scatter_examples() {
  const ExampleInput twice = at({3, 1}, {1, 3, 1});
  std::vector<Example> list =
      in_moved_dtypes({{{{8}, at({4, 1}, {4, 3, 1, 7}), {4}}},
                       {{{4, 2, 3}, at({2, 1}, {0, -2}), {2, 2, 3}}},
                       {{{2, 3}, at({2, 2}, {0, 2, 1, 0}, DType::kI32), {2}}},
                       {{{9, 7, 40}, at({3, 2}, {8, 0, 4, -2, 0, 1}), {3, 40}}},
                       {{{2, 3}, ExampleInput(DType::kI64, {0, 1}), {0, 3}}},
                       {{{4}, twice, {3}}, how("add")}},
                      [](DType t) {
                        return Example{{{t, {4, 3}}, at({2, 1}, {3, -4}), {t, {2, 3}}}};
                      });
  // The last update of a place counts.
  list.push_back({.inputs = {{4}, twice, {3}}, .check_gradient = false});
  for (const char* reduction : {"mul", "min", "max"}) {
    list.push_back({.inputs = {{4}, twice, {3}}, .attrs = how(reduction), .check_gradient = false});
  }
  for (const DType t : {DType::kF64, DType::kF16, DType::kBF16, DType::kI32, DType::kI64}) {
    list.push_back({{{t, {4, 2}}, twice, {t, {3, 2}}}, how("add")});
    list.push_back({.inputs = {{t, {4, 2}}, twice, {t, {3, 2}}},
                    .attrs = how("max"),
                    .check_gradient = false});
  }
  return list;
}

}  // namespace

std::vector<OpDef> gather_nd_ops() {
  return {
      {.name = "GatherND",
       .facts = {.onnx = 11, .kind = OpKind::kMove, .sign = Sign::kAsInputs},
       .min_inputs = 2,
       .max_inputs = 2,
       .attrs = {{"batch_dims", AttrSpec::Kind::kInt, Attr(int64_t{0})}},
       .infer = gather_infer,
       .reference = gather_reference,
       .gradient = gather_gradient,
       .examples = gather_examples()},
      {.name = "ScatterND",
       .facts = {.onnx = 11,
                 .onnx_later = {{.since = 18, .attribute = "reduction", .text = "min"},
                                {.since = 18, .attribute = "reduction", .text = "max"}},
                 .rank = RankRule::kFirst},
       .min_inputs = 3,
       .max_inputs = 3,
       .attrs = {{"reduction", AttrSpec::Kind::kString, Attr(std::string("none"))}},
       .infer = scatter_infer,
       .reference = scatter_reference,
       .gradient = scatter_gradient,
       .examples = scatter_examples()},
  };
}

}  // namespace ndtrain
