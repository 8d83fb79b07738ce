// Slice: y[i] = x[start + i * step] along each axis named; starts and ends count from the back when
// negative and are clamped, as ONNX (opset 13) says.
#include <limits>

#include "framework/ops/common.h"

namespace ndtrain {
namespace {

struct Cut {
  Ints start, step, extent;  // one per dim of x
};

int64_t clamp(int64_t v, int64_t low, int64_t high) { return std::max(low, std::min(v, high)); }

Cut whole(const Shape& x) {
  const size_t rank = static_cast<size_t>(x.rank());
  return {Ints(rank, 0), Ints(rank, 1), x.dims()};
}

void cut_dim(Cut& cut, size_t d, int64_t n, int64_t start, int64_t end, int64_t step) {
  if (step == 0) throw Error("the step of axis ", d, " is 0");
  // Negative positions count from the end; the sums cannot overflow as n >= 0.
  if (start < 0) start += n;
  if (end < 0) end += n;
  start = step > 0 ? clamp(start, 0, n) : clamp(start, -1, n - 1);
  end = step > 0 ? clamp(end, 0, n) : clamp(end, -1, n - 1);
  // |step| beyond n takes one element, whatever it is.
  step = clamp(step, -std::max<int64_t>(n, 1), std::max<int64_t>(n, 1));
  const int64_t span = step > 0 ? end - start : start - end;
  cut.start[d] = start;
  cut.step[d] = step;
  cut.extent[d] = span <= 0 ? 0 : (span - 1) / std::abs(step) + 1;
  if (cut.extent[d] == 0) cut.start[d] = 0;
}

// `axes` and `steps` may be empty: all in order, all 1.
Cut make_cut(const Shape& x, const Ints& starts, const Ints& ends, const Ints& axes,
             const Ints& steps) {
  const size_t n = starts.size();
  if (ends.size() != n || (!axes.empty() && axes.size() != n) ||
      (!steps.empty() && steps.size() != n)) {
    throw Error("starts, ends, axes and steps have ", n, ", ", ends.size(), ", ", axes.size(),
                " and ", steps.size(), " elements");
  }
  Cut cut = whole(x);
  std::vector<bool> seen(cut.start.size(), false);
  for (size_t i = 0; i < n; ++i) {
    const int64_t named = axes.empty() ? static_cast<int64_t>(i) : axes[i];
    const size_t d = static_cast<size_t>(x.axis(named, "axes"));
    if (seen[d]) throw Error("axes name dim ", d, " twice");
    seen[d] = true;
    cut_dim(cut, d, x.dims()[d], starts[i], ends[i], steps.empty() ? 1 : steps[i]);
  }
  return cut;
}

// `C` is an InferContext or a ReferenceContext.
template <typename C>
Cut cut_of(const C& c) {
  return make_cut(c.shape(0), c.ints(1), c.ints(2), c.has(3) ? c.ints(3) : Ints(),
                  c.has(4) ? c.ints(4) : Ints());
}

void infer(InferContext& c) {
  for (size_t i = 1; i < c.in.size(); ++i) require(c, i, is_index, "i32 or i64");
  c.out = {{c.in[0].dtype, Shape(cut_of(c).extent)}};
}

// Calls f(index into the cut, index into x).
template <typename F>
void for_each_cut(const Cut& cut, const Shape& x, F f) {
  Ints steps = x.strides();
  int64_t first = 0;
  for (size_t d = 0; d < steps.size(); ++d) {
    first += steps[d] * cut.start[d];
    steps[d] *= cut.step[d];
  }
  for_each_strided(Shape(cut.extent), steps, first, f);
}

void reference(const ReferenceContext& c) {
  for_each_cut(cut_of(c), c.shape(0), [&](int64_t i, int64_t at) { c.out[0][i] = c.in[0][at]; });
}

std::vector<ValueId> gradient(GradientContext& c) {
  const Shape x = c.shape(c.x(0));
  const auto ints = [&](size_t i) { return c.has(i) ? c.g.value(c.x(i)).data.to_ints() : Ints(); };
  const Cut cut = make_cut(x, ints(1), ints(2), ints(3), ints(4));
  return {c.g.add1("SliceGrad", {c.dy[0]},
                   {{"starts", cut.start}, {"steps", cut.step}, {"input_shape", x.dims()}})};
}

// SliceGrad: zeros of input_shape, with dy put where it was cut from.
Cut grad_cut(const Attrs& attrs, const Shape& dy) {
  const Shape x(attrs.ints("input_shape"));
  Cut cut{attrs.ints("starts"), attrs.ints("steps"), dy.dims()};
  const size_t rank = static_cast<size_t>(x.rank());
  if (cut.start.size() != rank || cut.step.size() != rank || cut.extent.size() != rank) {
    throw Error("starts, steps, dy and input_shape differ in rank: ", dy, " from ", x);
  }
  for (size_t d = 0; d < rank; ++d) {
    if (cut.extent[d] == 0) continue;
    int64_t last;
    if (__builtin_mul_overflow(cut.extent[d] - 1, cut.step[d], &last) ||
        __builtin_add_overflow(last, cut.start[d], &last) || cut.start[d] < 0 ||
        cut.start[d] >= x.dims()[d] || last < 0 || last >= x.dims()[d]) {
      throw Error("dim ", d, ": ", cut.extent[d], " elements from ", cut.start[d], " by ",
                  cut.step[d], " do not lie in ", x);
    }
  }
  return cut;
}

void grad_infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  grad_cut(c.attrs, c.shape(0));
  c.out = {{c.in[0].dtype, Shape(c.attrs.ints("input_shape"))}};
}

void grad_reference(const ReferenceContext& c) {
  const Cut cut = grad_cut(c.attrs, c.shape(0));
  for_each_cut(cut, c.out_shape(), [&](int64_t i, int64_t at) { c.out[0][at] = c.in[0][i]; });
}

std::vector<Example> examples() {
  using E = ExampleInput;
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max(), kBack = -kFar - 1;
  std::vector<Example> list = {
      {{{7}, E::ints({2}), E::ints({5})}},
      {{{20, 10, 5}, E::ints({0, 0}), E::ints({3, 10}), E::ints({0, 1}), E::ints({1, 1})}},
      {{{4, 5, 6}, E::ints({0, 0, 3}), E::ints({4, 5, 4})}},
      {{{4, 6}, E::ints({1}), E::ints({-1}), E::ints({-1})}},
      {{{4, 6}, E::ints({1, 0}), E::ints({kFar, kFar}), E::ints({1, 0}), E::ints({2, 3})}},
      {{{4, 6}, E::ints({-1}), E::ints({kBack}), E::ints({1}), E::ints({-1})}},
      {{{5, 7}, E::ints({20, -2}), E::ints({0, -7}), E::ints({0, 1}), E::ints({-2, -3})}},
      {{{4, 6}, E::ints({3}), E::ints({1}), E::ints({1})}},
      {{{4, 6}, E::ints({100}), E::ints({200}), E::ints({0})}},
      {{{0, 6}, E::ints({1}), E::ints({4}), E::ints({1})}},
      {{{3, 6}, E::ints({0}), E::ints({6}), E::ints({1}), E::ints({kFar})}},
      {{{2, 3, 8, 8}, E::ints({0, 1}), E::ints({8, 8}), E::ints({2, 3}), E::ints({2, 2})}},
  };
  for (const DType t : kMovedDTypes) {
    list.push_back({{{t, {4, 5}}, E::ints({1}), E::ints({4}), E::ints({1}), E::ints({2})}});
  }
  return list;
}

}  // namespace

std::vector<OpDef> slice_ops() {
  const auto grad_attrs = [](Ints starts, Ints steps, Ints shape) {
    return Attrs{{"starts", starts}, {"steps", steps}, {"input_shape", shape}};
  };
  return {
      {.name = "Slice",
       .facts = moving({.onnx = 1, .rank = RankRule::kFirst}),
       .min_inputs = 3,
       .max_inputs = 5,
       .infer = infer,
       .reference = reference,
       .gradient = gradient,
       .shape_inputs = 0b11110,
       .examples = examples()},
      {.name = "SliceGrad",
       .attrs = {{.name = "starts", .kind = AttrSpec::Kind::kInts, .required = true},
                 {.name = "steps", .kind = AttrSpec::Kind::kInts, .required = true},
                 {.name = "input_shape", .kind = AttrSpec::Kind::kInts, .required = true}},
       .infer = grad_infer,
       .reference = grad_reference,
       .examples = {{{{3}}, grad_attrs({2}, {1}, {7})},
                    {{{2, 3}}, grad_attrs({3, 0}, {-2, 2}, {4, 6})},
                    {{{2, 0}}, grad_attrs({0, 0}, {1, 1}, {2, 5})},
                    {{{2, 3, 4, 4}}, grad_attrs({0, 0, 0, 1}, {1, 1, 2, 2}, {2, 3, 8, 8})},
                    {{{DType::kF64, {3}}}, grad_attrs({2}, {1}, {7})},
                    {{{DType::kF16, {3}}}, grad_attrs({2}, {1}, {7})}}},
  };
}

}  // namespace ndtrain
