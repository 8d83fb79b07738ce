// Affine quantisation, real = (quantised - zero point) * scale: what the quantised ops share. They
// round, so it matters in which precision: quotients and products of scales are f32, as in ONNX.
#pragma once

#include "framework/ops/common.h"

namespace ndtrain {

inline bool is_byte(DType t) { return t == DType::kI8 || t == DType::kU8; }

// x rounded half to even, plus the zero point, held within the range of an integer dtype. NaN gives
// the zero point.
double quantized(float x, double zero_point, DType t);

// The zero point of element k: 0 when the input is absent, its one value, or its k-th.
inline double zero_point(const ReferenceContext& c, size_t i, int64_t k = 0) {
  if (!c.has(i)) return 0;
  return c.in[i].size() == 1 ? c.in[i][0] : c.in[i][k];
}

// Scale `i` of element k, likewise.
inline float scale(const ReferenceContext& c, size_t i, int64_t k = 0) {
  return static_cast<float>(c.in[i].size() == 1 ? c.in[i][0] : c.in[i][k]);
}

// infer: throws Error unless input i is absent, one value, or with n > 0 a vector of n.
void check_one_or(const InferContext& c, size_t i, int64_t n = 0);

// infer: inputs i, i + 1, i + 2 are a byte tensor, its float scale, and its zero point of the
// tensor's dtype; scale and zero point are one value each, or with n > 0 a vector of n.
void check_quantized(const InferContext& c, size_t i, int64_t n = 0);

// Inputs of examples: bytes of the whole range of a dtype; one number; numbers that are constants.
ExampleInput all_bytes(DType t, Shape s);
ExampleInput one_number(double v, DType t = DType::kF32);
ExampleInput known_numbers(std::vector<double> v, DType t = DType::kF32);

}  // namespace ndtrain
