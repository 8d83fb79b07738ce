// GatherND and ScatterND: the last dim of the indices is a coordinate into the leading dims of the
// data, and what lies behind it is taken or put as a whole. Met in shape arithmetic only.
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

void scatter_infer(InferContext& c) {
  require(c, 1, is_index, "i32 or i64");
  require_same_dtype(c, 0, 2);
  const std::string& how = c.attrs.s("reduction");
  if (how != "none" && how != "add" && how != "mul" && how != "min" && how != "max") {
    throw Error("reduction is '", how, "', must be none, add, mul, min or max");
  }
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

ExampleInput at(Shape s, std::vector<double> v) {
  return ExampleInput::given(DType::kI64, std::move(s), std::move(v));
}

}  // namespace

std::vector<OpDef> gather_nd_ops() {
  const auto how = [](const char* r) { return Attrs{{"reduction", std::string(r)}}; };
  const ExampleInput twice = at({3, 1}, {1, 3, 1});
  return {
      {.name = "GatherND",
       .min_inputs = 2,
       .max_inputs = 2,
       .attrs = {{"batch_dims", AttrSpec::Kind::kInt, Attr(int64_t{0})}},
       .infer = gather_infer,
       .reference = gather_reference,
       .reference_only = true,
       .examples = {{{{2, 2}, at({2, 2}, {0, 0, -1, 1})}},
                    {{{2, 3, 2}, at({2, 1, 2}, {0, 1, 1, 0})}},
                    {{{2, 3}, at({2, 1}, {1, 0})}},
                    {{{2, 3, 2}, at({2, 1}, {1, 0})}, {{"batch_dims", int64_t{1}}}},
                    {{{DType::kI64, {4}}, at({2, 1}, {3, -4})}}}},
      {.name = "ScatterND",
       .min_inputs = 3,
       .max_inputs = 3,
       .attrs = {{"reduction", AttrSpec::Kind::kString, Attr(std::string("none"))}},
       .infer = scatter_infer,
       .reference = scatter_reference,
       .reference_only = true,
       .examples = {{{{8}, at({4, 1}, {4, 3, 1, 7}), {4}}},
                    {{{4, 2, 3}, at({2, 1}, {0, -2}), {2, 2, 3}}},
                    {{{2, 3}, at({2, 2}, {0, 2, 1, 0}), {2}}},
                    {{{4}, twice, {3}}, how("add")},
                    {{{4}, twice, {3}}, how("mul")},
                    {{{4}, twice, {3}}, how("min")},
                    {{{4}, twice, {3}}, how("max")}}},
  };
}

}  // namespace ndtrain
