// Cast: the nearest value of another dtype (see rounded(): towards zero for integers, 0 or 1 for
// bool). `to` is a DType number. CastLike takes the dtype of its second input.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

void infer(InferContext& c) {
  const int64_t to = c.attrs.i("to");
  if (to <= static_cast<int64_t>(DType::kNone) || to > static_cast<int64_t>(DType::kBool)) {
    throw Error("to is ", to, ", which is no dtype");
  }
  c.out = {{static_cast<DType>(to), c.shape(0)}};
}

void infer_like(InferContext& c) { c.out = {{c.in[1].dtype, c.shape(0)}}; }

void reference(const ReferenceContext& c) { c.out[0] = c.in[0]; }

// Rounding is taken for the identity; what goes through an integer has no gradient.
std::vector<ValueId> gradient(GradientContext& c) {
  const DType from = c.g.type(c.x(0)).dtype, to = c.g.type(c.y()).dtype;
  if (!is_float(from) || !is_float(to)) return {kNone};
  return {cast(c.g, c.dy[0], from)};
}

constexpr DType kAll[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI8,
                          DType::kU8,  DType::kI16, DType::kU16,  DType::kI32, DType::kU32,
                          DType::kI64, DType::kU64, DType::kBool};

// Values every pair of dtypes has an answer for: a negative float as unsigned has none in C.
ExampleInput values(DType from, DType to) {
  const bool is_unsigned = is_integer(to) && !is_signed(to);
  if (is_bool(from)) return {from, {4}};
  if (is_float(from) && is_bool(to)) return ExampleInput::given(from, {4}, {0, 0.5, -2, 1});
  return ExampleInput::range({3, 5}, is_unsigned || !is_signed(from) ? 0 : -100, 100, from);
}

bool in_double(DType t) { return t == DType::kF32 || t == DType::kF64; }

std::vector<Example> examples() {
  std::vector<Example> list;
  for (const DType from : kAll) {
    for (const DType to : kAll) {
      Example e{{values(from, to)}, {{"to", static_cast<int64_t>(to)}}};
      e.check_gradient = in_double(from) && in_double(to);
      list.push_back(std::move(e));
    }
  }
  list.push_back({{Shape{}}, {{"to", static_cast<int64_t>(DType::kF64)}}});
  list.push_back({{{0, 3}}, {{"to", static_cast<int64_t>(DType::kF64)}}});
  return list;
}

}  // namespace

std::vector<OpDef> cast_ops() {
  const Example to_int{{{3}, {DType::kI32, {2}}}, {}, 0, false};
  const Example to_half{{{2, 3}, ExampleInput::scalar(1, DType::kF16)}, {}, 0, false};
  return {
      {.name = "Cast",
       .facts = mapping(
           {.onnx = 1, .onnx_later = {{.since = 19, .attribute = "saturate"}}, .own_dtype = true}),
       .attrs = {{.name = "to", .kind = AttrSpec::Kind::kInt, .required = true},
                 {"saturate", AttrSpec::Kind::kInt, Attr(int64_t{1})}},
       .infer = infer,
       .reference = reference,
       .gradient = gradient,
       .examples = examples()},
      {.name = "CastLike",
       .facts = {.onnx = 15,
                 .onnx_later = {{.since = 19, .attribute = "saturate"}},
                 .rank = RankRule::kFirst,
                 .own_dtype = true},
       .min_inputs = 2,
       .max_inputs = 2,
       .attrs = {{"saturate", AttrSpec::Kind::kInt, Attr(int64_t{1})}},
       .infer = infer_like,
       .reference = reference,
       .gradient = gradient,
       .examples = {to_int, to_half, {{{2, 3}, ExampleInput::scalar(1, DType::kF64)}}}},
  };
}

}  // namespace ndtrain
