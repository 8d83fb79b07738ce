// ByteTable: y[i] = table[x[i] - lowest], lowest that of x's dtype; what a pass makes of
// DequantizeLinear, functions of one number and QuantizeLinear. Every result is what these give.
//   x of i8 or u8, table [256] of i8 or u8, y like x in the table's dtype
#include "framework/ops/quantize.h"

namespace ndtrain {
namespace {

void infer(InferContext& c) {
  require(c, 0, is_byte, "i8 or u8");
  require(c, 1, is_byte, "i8 or u8");
  if (c.shape(1) != Shape{256}) throw Error("a table ", c.shape(1), " is not [256]");
  c.out.push_back({c.in[1].dtype, c.shape(0)});
}

void reference(const ReferenceContext& c) {
  const double lowest = c.in_types[0].dtype == DType::kI8 ? -128 : 0;
  for (size_t i = 0; i < c.in[0].size(); ++i) {
    c.out[0][i] = c.in[1][static_cast<size_t>(c.in[0][i] - lowest)];
  }
}

std::vector<Example> examples() {
  return {{{all_bytes(DType::kU8, {2, 3, 5, 7}), all_bytes(DType::kI8, {256})}},
          {{all_bytes(DType::kI8, {3, 64, 7, 7}), all_bytes(DType::kU8, {256})}},
          {{all_bytes(DType::kU8, {301}), all_bytes(DType::kU8, {256})}}};
}

}  // namespace

std::vector<OpDef> byte_table_ops() {
  return {{.name = "ByteTable",
           .facts = {.rank = RankRule::kFirst, .own_dtype = true, .per_image = each_image},
           .min_inputs = 2,
           .max_inputs = 2,
           .infer = infer,
           .reference = reference,
           .optional_fusion = always,
           .examples = examples()}};
}

}  // namespace ndtrain
