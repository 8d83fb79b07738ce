// The bits of integers, with NumPy's broadcasting: BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot
// and BitShift, which of a signed number to the right copies the sign; shifted by less than 0 or by
// as many bits as there are, the sign is left. BitCast: the bits of a number read as another
// type's. A double holds integers up to 2^53; kernels hold all.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

using Kind = AttrSpec::Kind;

uint64_t bits_of(double v, DType t) {
  return is_signed(t) ? static_cast<uint64_t>(static_cast<int64_t>(v)) : static_cast<uint64_t>(v);
}

// The lowest bits of `bits`, as many as `t` has.
double value_of(uint64_t bits, DType t) {
  const auto unused = 64 - 8 * static_cast<int>(size_of(t));
  bits <<= unused;
  return is_signed(t) ? static_cast<double>(static_cast<int64_t>(bits) >> unused)
                      : static_cast<double>(bits >> unused);
}

void infer_bits(InferContext& c) {
  require(c, 0, is_integer, "an integer dtype");
  if (c.in.size() == 1) return same_type(c);
  require_same_dtype(c, 0, 1);
  c.out = {{c.in[0].dtype, broadcast(c.shape(0), c.shape(1), "broadcast")}};
}

void infer_shift(InferContext& c) {
  const std::string& direction = c.attrs.s("direction");
  if (direction != "LEFT" && direction != "RIGHT") {
    throw Error("direction is '", direction, "', must be LEFT or RIGHT");
  }
  infer_bits(c);
}

template <typename F>
void map_bits(const ReferenceContext& c, F f) {
  const DType t = c.in_types[0].dtype;
  const Shape shapes[] = {c.shape(0), c.shape(1)};
  for_each_broadcast(c.out_shape(), shapes, [&](int64_t i, std::span<const int64_t> at) {
    c.out[0][i] = f(bits_of(c.in[0][at[0]], t), bits_of(c.in[1][at[1]], t), t);
  });
}

template <auto F>
void bitwise(const ReferenceContext& c) {
  map_bits(c, [](uint64_t a, uint64_t b, DType t) { return value_of(F(a, b), t); });
}

void shift(const ReferenceContext& c) {
  const bool left = c.attrs.s("direction") == "LEFT";
  map_bits(c, [&](uint64_t a, uint64_t by, DType t) {
    const bool negative = is_signed(t) && static_cast<int64_t>(a) < 0;
    // A negative number is a large one.
    if (by >= 8 * size_of(t)) return !left && negative ? -1.0 : 0.0;
    if (left) return value_of(a << by, t);
    return value_of(negative ? ~(~a >> by) : a >> by, t);
  });
}

void bitwise_not(const ReferenceContext& c) {
  const DType t = c.in_types[0].dtype;
  for (size_t i = 0; i < c.in[0].size(); ++i) {
    c.out[0][i] = value_of(~bits_of(c.in[0][i], t), t);
  }
}

void infer_bit_cast(InferContext& c) {
  const auto to = static_cast<DType>(c.attrs.i("to"));
  if (size_of(to) != size_of(c.in[0].dtype)) {
    throw Error(c.in[0], " has other bits than ", name_of(to), ": they must be as many");
  }
  c.out = {{to, c.shape(0)}};
}

void bit_cast(const ReferenceContext& c) {
  const DType from = c.in_types[0].dtype;
  const size_t n = c.in[0].size();
  std::vector<std::byte> bytes(n * size_of(from));
  store(c.in[0].data(), n, from, bytes.data());
  load(bytes.data(), n, c.out_types[0].dtype, c.out[0].data());
}

const std::vector<DType> kIntegers = {DType::kI32, DType::kI8,  DType::kU8,  DType::kI16,
                                      DType::kU16, DType::kU32, DType::kI64, DType::kU64};

double least_of(DType t) { return is_signed(t) ? -100 : 0; }

std::vector<Example> pair_examples() {
  using E = ExampleInput;
  std::vector<Example> list;
  for (const DType t : kIntegers) {
    const auto bits = [&](Shape s) { return E::range(std::move(s), least_of(t), 100, t); };
    list.push_back({{bits({2, 3, 4}), bits({3, 1})}});
  }
  list.push_back({{{DType::kI32, {0, 3}}, {DType::kI32, {3}}}});
  return list;
}

std::vector<Example> shift_examples() {
  using E = ExampleInput;
  std::vector<Example> list;
  for (const char* direction : {"LEFT", "RIGHT"}) {
    for (const DType t : kIntegers) {
      const auto width = static_cast<double>(8 * size_of(t));
      const E by = E::given(t, {6}, {0, 1, 3, width - 1, width, is_signed(t) ? -1 : width + 1});
      list.push_back({{E::range({2, 6}, least_of(t), 100, t), by}, {{"direction", direction}}});
    }
  }
  return list;
}

std::vector<Example> not_examples() {
  std::vector<Example> list;
  for (const DType t : kIntegers) {
    list.push_back({{ExampleInput::range({3, 5}, least_of(t), 100, t)}});
  }
  return list;
}

std::vector<Example> cast_examples() {
  using E = ExampleInput;
  const auto to = [](DType t) { return Attrs{{"to", static_cast<int64_t>(t)}}; };
  const std::vector<double> few = {0, 1, -2.5, 0.75};
  std::vector<Example> list;
  for (const auto& [from, as] :
       {std::pair(DType::kF32, DType::kI32), std::pair(DType::kF64, DType::kI64),
        std::pair(DType::kF16, DType::kU16), std::pair(DType::kBF16, DType::kI16)}) {
    list.push_back({{E::given(from, {2, 2}, few)}, to(as)});
  }
  list.push_back({{E::given(DType::kI32, {2}, {1065353216, -1082130432})}, to(DType::kF32)});
  list.push_back({{E::range({5}, -100, 100, DType::kI8)}, to(DType::kU8)});
  list.push_back({{E(DType::kBool, {7})}, to(DType::kU8)});
  list.push_back({{E::range(Shape{}, 0, 100, DType::kU64)}, to(DType::kI64)});
  return list;
}

OpDef of_two(std::string_view name, void (*reference)(const ReferenceContext&)) {
  return {.name = name,
          .facts = mapping({.onnx = 18, .commutative = true}),
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_bits,
          .reference = reference,
          .by_reference = true,
          .examples = pair_examples()};
}

}  // namespace

std::vector<OpDef> bits_ops() {
  return {of_two("BitwiseAnd", bitwise<[](uint64_t a, uint64_t b) { return a & b; }>),
          of_two("BitwiseOr", bitwise<[](uint64_t a, uint64_t b) { return a | b; }>),
          of_two("BitwiseXor", bitwise<[](uint64_t a, uint64_t b) { return a ^ b; }>),
          {.name = "BitwiseNot",
           .facts = mapping({.onnx = 18}),
           .infer = infer_bits,
           .reference = bitwise_not,
           .by_reference = true,
           .examples = not_examples()},
          {.name = "BitShift",
           .facts = mapping({.onnx = 11,
                             .onnx_later = {{28, DType::kI8},
                                            {28, DType::kI16},
                                            {28, DType::kI32},
                                            {28, DType::kI64}}}),
           .min_inputs = 2,
           .max_inputs = 2,
           .attrs = {{.name = "direction", .kind = Kind::kString, .required = true}},
           .infer = infer_shift,
           .reference = shift,
           .by_reference = true,
           .examples = shift_examples()},
          {.name = "BitCast",
           .facts = mapping({.onnx = 26, .own_dtype = true}),
           .attrs = {{.name = "to", .kind = Kind::kInt, .required = true}},
           .infer = infer_bit_cast,
           .reference = bit_cast,
           .by_reference = true,
           .examples = cast_examples()}};
}

}  // namespace ndtrain
