// Pad: adds pads[d] elements before and pads[n + d] behind each axis named; negative pads crop.
// What is added is a constant, or x continued: reflect (without repeating the border), edge, wrap.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

struct Pads {
  Ints before, behind;  // one per dim of x
};

Pads make_pads(const Shape& x, const Ints& pads, const Ints* axes) {
  const size_t rank = static_cast<size_t>(x.rank());
  const size_t n = axes ? axes->size() : rank;
  if (pads.size() != 2 * n) throw Error(pads.size(), " pads are given for ", n, " axes of ", x);
  Pads p{Ints(rank, 0), Ints(rank, 0)};
  std::vector<bool> seen(rank, false);
  for (size_t i = 0; i < n; ++i) {
    const size_t d = static_cast<size_t>(axes ? x.axis((*axes)[i], "axes") : static_cast<int>(i));
    if (seen[d]) throw Error("axes name dim ", d, " twice");
    seen[d] = true;
    p.before[d] = pads[i];
    p.behind[d] = pads[n + i];
  }
  return p;
}

template <typename C>
Pads pads_of(const C& c) {
  const Ints axes = c.has(3) ? c.ints(3) : Ints();
  return make_pads(c.shape(0), c.ints(1), c.has(3) ? &axes : nullptr);
}

void infer(InferContext& c) {
  const std::string& mode = c.attrs.s("mode");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap") {
    throw Error("mode is '", mode, "', must be constant, reflect, edge or wrap");
  }
  require_same_dtype(c, 0, 2);
  if (c.has(2) && c.shape(2).count() != 1) throw Error("the value is ", c.in[2], ", must be one");
  const Pads p = pads_of(c);
  std::vector<int64_t> dims = c.shape(0).dims();
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t n = dims[d];
    if (__builtin_add_overflow(dims[d], p.before[d], &dims[d]) ||
        __builtin_add_overflow(dims[d], p.behind[d], &dims[d]) || dims[d] < 0) {
      throw Error("pads ", p.before[d], " and ", p.behind[d], " do not fit axis ", d, " of ", n);
    }
    if (n == 0 && dims[d] > 0 && mode != "constant") {
      throw Error("axis ", d, " has no elements to continue");
    }
  }
  c.out = {{c.in[0].dtype, Shape(std::move(dims))}};
}

// Where element i of the padded axis, i counted from the first of x, comes from; -1: from nowhere.
int64_t source(int64_t i, int64_t n, const std::string& mode) {
  if (i >= 0 && i < n) return i;
  if (mode == "edge") return i < 0 ? 0 : n - 1;
  if (mode == "wrap") return (i % n + n) % n;
  if (mode == "constant") return -1;
  if (n == 1) return 0;
  const int64_t period = 2 * (n - 1), at = (i % period + period) % period;
  return at < n ? at : period - at;
}

void reference(const ReferenceContext& c) {
  const Shape& x = c.shape(0);
  const Shape& y = c.out_shape();
  const std::string& mode = c.attrs.s("mode");
  const Pads p = pads_of(c);
  const std::vector<int64_t> strides = x.strides();
  const double value = c.has(2) ? c.in[2][0] : 0;
  for (int64_t i = 0; i < y.count(); ++i) {
    int64_t rest = i, at = 0;
    for (int d = y.rank() - 1; d >= 0 && at >= 0; --d) {
      const size_t k = static_cast<size_t>(d);
      const int64_t from = source(rest % y[d] - p.before[k], x[d], mode);
      at = from < 0 ? -1 : at + from * strides[k];
      rest /= y[d];
    }
    c.out[0][i] = at < 0 ? value : c.in[0][at];
  }
}

// A constant border is cut off again, what was cropped comes back as zeros. The value takes the
// rest of dy: its sum less the sum of what x gets.
std::vector<ValueId> constant_gradient(GradientContext& c, const Pads& p) {
  Ints back;
  for (const int64_t b : p.before) back.push_back(-b);
  for (const int64_t b : p.behind) back.push_back(-b);
  const ValueId dx = c.g.add1("Pad", {c.dy[0], c.g.add_constant("", back)});
  std::vector<ValueId> d = {dx, kNone, kNone};
  if (c.has(2) && c.wanted[2]) {
    const Shape shape = c.shape(c.x(2));
    const ValueId all = c.g.add1("ReduceSum", {c.dy[0]}, {{"keepdims", int64_t{0}}});
    const ValueId inside = c.g.add1("ReduceSum", {dx}, {{"keepdims", int64_t{0}}});
    d[2] = reshape(c.g, c.g.add1("Sub", {all, inside}), shape);
  }
  return d;
}

// The other modes gather along one axis after the other; their gradient scatters back likewise.
std::vector<ValueId> gradient(GradientContext& c) {
  const Shape x = c.shape(c.x(0));
  const Ints axes = c.has(3) ? c.g.value(c.x(3)).data.to_ints() : Ints();
  const Pads p = make_pads(x, c.g.value(c.x(1)).data.to_ints(), c.has(3) ? &axes : nullptr);
  const std::string mode = c.node.attrs.s("mode");
  if (mode == "constant") return constant_gradient(c, p);
  ValueId d = c.dy[0];
  for (int axis = 0; axis < x.rank(); ++axis) {
    const size_t k = static_cast<size_t>(axis);
    if (p.before[k] == 0 && p.behind[k] == 0) continue;
    const Shape y = c.shape(d);
    Ints from;
    for (int64_t i = 0; i < y[axis]; ++i) from.push_back(source(i - p.before[k], x[axis], mode));
    d = c.g.add1("GatherGrad", {d, c.g.add_constant("", from)},
                 {{"axis", int64_t{axis}}, {"input_shape", y.with(axis, x[axis]).dims()}});
  }
  return {d};
}

std::vector<Example> examples() {
  using E = ExampleInput;
  const auto mode = [](const char* m) { return Attrs{{"mode", std::string(m)}}; };
  std::vector<Example> list = {
      {{{3}, E::ints({1, 2})}},
      {{{2, 3}, E::ints({0, 2, 0, 0}), E::scalar(1.5)}},
      {{{2, 3, 4, 4}, E::ints({0, 0, 1, 1, 0, 0, 1, 1})}},
      {{{4, 5}, E::ints({-1, 2, 1, -2}), E::scalar(-0.5)}},
      {{{2, 3, 4}, E::ints({1, 2, 0, 1}), E::absent(), E::ints({0, -1})}},
      {{{2, 3}, E::ints({1, 1}), E::given(DType::kF32, {1}, {2}), E::ints({1})}},
      {{{2, 3}, E::ints({0, 1, 1, 0}), E(Shape{})}},
      {{Shape{}, E::ints({})}},
      {{{0, 2}, E::ints({1, 0, 1, 0})}},
      {{{2, 3}, E::ints({-1, 0, -1, 0})}},
      {{{3, 4}, E::ints({2, 1, 1, 3})}, mode("reflect")},
      {{{2, 3}, E::ints({0, 7, 0, 5})}, mode("reflect")},
      {{{3, 4}, E::ints({2, 1, 1, 3})}, mode("edge")},
      {{{3, 4}, E::ints({2, -1, -1, 3})}, mode("edge")},
      {{{3, 4}, E::ints({2, 1, 1, 3})}, mode("wrap")},
      {{{2, 3}, E::ints({0, 7, 0, 5})}, mode("wrap")},
      {{{1, 2, 4, 4}, E::ints({1, 1, 2, 2}), E::absent(), E::ints({2, 3})}, mode("reflect")},
  };
  for (const DType t : kMovedDTypes) {
    list.push_back({{{t, {2, 3}}, E::ints({1, 0, 0, 2}), E::scalar(1, t)}});
    list.push_back({{{t, {2, 3}}, E::ints({1, 0, 0, 2})}, mode("edge")});
  }
  return list;
}

}  // namespace

std::vector<OpDef> pad_ops() {
  return {{.name = "Pad",
           .facts = {.onnx = 1,
                     .onnx_later = {{.since = 19, .attribute = "mode", .text = "wrap"}},
                     .rounding = Rounding::kExact,
                     .rank = RankRule::kFirst},
           .min_inputs = 2,
           .max_inputs = 4,
           .attrs = {{"mode", AttrSpec::Kind::kString, Attr(std::string("constant"))}},
           .infer = infer,
           .reference = reference,
           .gradient = gradient,
           .shape_inputs = 0b1010,
           .examples = examples()}};
}

}  // namespace ndtrain
