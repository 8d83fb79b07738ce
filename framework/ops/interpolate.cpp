// Interpolate: y[.., o, ..] = sum over k of weights[o, k] * x[.., indices[o, k], ..] along an axis:
// a sparse matrix applied to it, what Resize is composed of. Its gradient is the transposed matrix.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

void infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  const int axis = c.shape(0).axis(c.attrs.i("axis"), "axis");
  const DType wide = c.in[0].dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  if (c.in[1].dtype != DType::kI64 || c.in[2].dtype != wide || c.shape(1).rank() != 2 ||
      c.shape(1) != c.shape(2) || c.shape(1)[1] < 1) {
    throw Error("indices are ", c.in[1], " and weights ", c.in[2], ", must be i64 and ",
                name_of(wide), " of one shape [places, taps]");
  }
  for (const int64_t i : c.ints(1)) {
    if (i < 0 || i >= c.shape(0)[axis]) {
      throw Error("index ", i, " is not in dim ", axis, " of ", c.shape(0));
    }
  }
  c.out = {{c.in[0].dtype, c.shape(0).with(axis, c.shape(1)[0])}};
}

void reference(const ReferenceContext& c) {
  const Shape& x = c.shape(0);
  const int axis = x.axis(c.attrs.i("axis"), "axis");
  const int64_t outer = x.count(0, axis), inner = x.count(axis + 1, x.rank());
  const int64_t places = c.shape(1)[0], taps = c.shape(1)[1];
  for (int64_t row = 0; row < outer * places; ++row) {
    for (int64_t k = 0; k < taps; ++k) {
      const auto tap = static_cast<size_t>(row % places * taps + k);
      const int64_t from = row / places * x[axis] + static_cast<int64_t>(c.in[1][tap]);
      for (int64_t i = 0; i < inner; ++i) {
        c.out[0][row * inner + i] += c.in[2][tap] * c.in[0][from * inner + i];
      }
    }
  }
}

std::vector<ValueId> gradient(GradientContext& c) {
  const int64_t axis = c.node.attrs.i("axis");
  const int64_t extent = c.shape(c.x(0))[c.shape(c.x(0)).axis(axis, "axis")];
  const Tensor& weights = c.g.value(c.x(2)).data;
  if (!weights.defined()) throw Error("weights that are not known have no gradient");
  const Ints from = c.g.value(c.x(1)).data.to_ints();
  const std::vector<double> w = weights.to_doubles();
  const int64_t taps = std::max<int64_t>(1, weights.shape()[1]);
  std::vector<std::vector<std::pair<int64_t, double>>> back(static_cast<size_t>(extent));
  for (size_t i = 0; i < from.size(); ++i) {
    if (w[i] == 0) continue;
    back[static_cast<size_t>(from[i])].emplace_back(static_cast<int64_t>(i) / taps, w[i]);
  }
  size_t longest = 1;
  for (const auto& list : back) longest = std::max(longest, list.size());
  Ints indices;
  std::vector<double> values;
  for (auto& list : back) {
    list.resize(longest, {0, 0.0});
    for (const auto& [o, weight] : list) {
      indices.push_back(o);
      values.push_back(weight);
    }
  }
  const Shape shape{extent, static_cast<int64_t>(longest)};
  const ValueId at = c.g.add_constant("", Tensor::i64(indices).reshaped(shape));
  const ValueId by =
      c.g.add_constant("", Tensor::from_doubles({weights.type().dtype, shape}, values));
  return {c.g.add1("Interpolate", {c.dy[0], at, by}, {{"axis", axis}}), kNone, kNone};
}

int64_t terms(const Attrs&, std::span<const TensorType> in) {
  return std::max<int64_t>(1, in[1].shape[1]);
}

std::vector<Example> examples() {
  using E = ExampleInput;
  const auto example = [](E x, int64_t axis, const Shape& taps, std::vector<double> from) {
    E at = E::given(DType::kI64, taps, std::move(from));
    E weights = E::range(taps, -1, 1, x.type.dtype == DType::kF64 ? DType::kF64 : DType::kF32);
    at.known = weights.known = true;
    return Example{.inputs = {std::move(x), std::move(at), std::move(weights)},
                   .attrs = {{"axis", axis}}};
  };
  std::vector<double> many;
  for (int i = 0; i < 300; ++i) many.push_back(i * 7 % 40);
  return {
      example({5}, 0, {3, 2}, {0, 1, 4, 4, 2, 0}),
      example({2, 3, 4, 5}, -1, {7, 2}, {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4}),
      example({2, 3, 4, 5}, 2, {2, 3}, {0, 1, 2, 1, 2, 3}),
      example({2, 40, 300}, 1, {100, 3}, many),
      example({3, 3, 40}, 2, {100, 3}, many),
      example({DType::kF64, {3, 3}}, 1, {2, 1}, {2, 0}),
      example({DType::kF16, {3, 3}}, 1, {2, 1}, {2, 0}),
      example({DType::kBF16, {2, 2, 3}}, 1, {1, 2}, {1, 0}),
  };
}

}  // namespace

std::vector<OpDef> interpolate_ops() {
  return {{.name = "Interpolate",
           .facts = {.rounding = Rounding::kRounds,
                     .wide_inputs = 0b100,
                     .rank = RankRule::kFirst,
                     .per_image = each_image_off_axis_0},
           .min_inputs = 3,
           .max_inputs = 3,
           .attrs = {{"axis", AttrSpec::Kind::kInt, Attr(int64_t{-1})}},
           .infer = infer,
           .reference = reference,
           .gradient = gradient,
           .terms = terms,
           .shape_inputs = 0b110,
           .examples = examples()}};
}

}  // namespace ndtrain
