// ReverseSequence: the first lengths[b] steps of image b in the opposite order.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

void reverse_infer(InferContext& c) {
  const int64_t batch = c.attrs.i("batch_axis"), time = c.attrs.i("time_axis");
  if (c.shape(0).rank() < 2 || batch == time || batch < 0 || batch > 1 || time < 0 || time > 1) {
    throw Error("batch_axis ", batch, " and time_axis ", time, " must be 0 and 1 of ", c.in[0]);
  }
  if (c.in[1] != TensorType{DType::kI64, {c.shape(0)[static_cast<int>(batch)]}}) {
    throw Error("sequence_lens is ", c.in[1], ", must be one i64 for each image of ", c.in[0]);
  }
  c.out = {c.in[0]};
}

void reverse_reference(const ReferenceContext& c) {
  const Shape& x = c.shape(0);
  const bool batch_first = c.attrs.i("batch_axis") == 0;
  const int64_t inner = x.count(2, x.rank()), steps = x[batch_first ? 1 : 0];
  for (int64_t row = 0; row < x[0] * x[1]; ++row) {
    const int64_t b = batch_first ? row / x[1] : row % x[1];
    const int64_t t = batch_first ? row % x[1] : row / x[1];
    const auto length = static_cast<int64_t>(c.in[1][static_cast<size_t>(b)]);
    if (length < 0 || length > steps) throw Error("a length is ", length, " of ", steps, " steps");
    const int64_t from = t < length ? length - 1 - t : t;
    const int64_t other = batch_first ? b * x[1] + from : from * x[1] + b;
    for (int64_t i = 0; i < inner; ++i) c.out[0][row * inner + i] = c.in[0][other * inner + i];
  }
}

std::vector<ValueId> reverse_gradient(GradientContext& c) {
  return {c.g.add1("ReverseSequence", {c.dy[0], c.x(1)}, c.node.attrs), kNone};
}

std::vector<Example> reverse_examples() {
  using E = ExampleInput;
  const Attrs batch_first{{"batch_axis", int64_t{0}}, {"time_axis", int64_t{1}}};
  const E four = E::given(DType::kI64, {4}, {4, 3, 2, 1}), two = E::given(DType::kI64, {2}, {3, 0});
  return in_moved_dtypes({{{{4, 4}, four}}, {{{2, 3, 2}, two}, batch_first}}, [](DType t) {
    return Example{{{t, {3, 2}}, E::given(DType::kI64, {2}, {2, 3})}};
  });
}

}  // namespace

std::vector<OpDef> reverse_sequence_ops() {
  using Kind = AttrSpec::Kind;
  return {
      {.name = "ReverseSequence",
       .facts = moving({.onnx = 10, .onnx_later = {{28, DType::kBF16}}, .rank = RankRule::kFirst}),
       .min_inputs = 2,
       .max_inputs = 2,
       .attrs = {{"batch_axis", Kind::kInt, Attr(int64_t{1})},
                 {"time_axis", Kind::kInt, Attr(int64_t{0})}},
       .infer = reverse_infer,
       .reference = reverse_reference,
       .gradient = reverse_gradient,
       .by_reference = true,
       .examples = reverse_examples()}};
}

}  // namespace ndtrain
