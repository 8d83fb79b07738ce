// What several op families share.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "framework/graph/op.h"

namespace ndtrain {

// Sets of dtypes, for require().
inline bool any_dtype(DType t) { return t != DType::kNone; }
inline bool is_bool(DType t) { return t == DType::kBool; }
inline bool is_half(DType t) { return t == DType::kF16 || t == DType::kBF16; }
inline bool is_number(DType t) { return any_dtype(t) && !is_bool(t); }
inline bool is_integer(DType t) { return is_number(t) && !is_float(t); }
bool is_signed(DType t);  // floats and signed integers
bool is_wide(DType t);    // floats and integers of 32 or 64 bits: what ONNX adds up
inline bool is_index(DType t) { return t == DType::kI32 || t == DType::kI64; }

// infer: throws Error unless input i is absent or its dtype is one of `allowed`, called `what`.
void require(const InferContext& c, size_t i, bool (*allowed)(DType), std::string_view what);
// infer: throws Error unless inputs i and j have one dtype.
void require_same_dtype(const InferContext& c, size_t i, size_t j);

// infer: one output of input 0's type; further inputs that are present must have the same type.
void same_type(InferContext& c);
// The same, for floats only.
void same_float_type(InferContext& c);

// The facts of an op that works element by element, or that only moves elements: `more`, and what
// they all have.
OpFacts mapping(OpFacts more);
OpFacts moving(OpFacts more);

// Of OpFacts::onnx_later: ops that had 16-bit floats but not this one.
inline constexpr std::initializer_list<OnnxLater> kBf16Since22 = {{22, DType::kBF16}};

// Of OpDef::optional_fusion.
inline bool always(const Attrs&) { return true; }

// Of OpFacts::per_image.
inline bool each_image(const Attrs&, int) { return true; }
// Where the attribute `axis` is not the first.
bool each_image_off_axis_0(const Attrs& attrs, int rank);

// `v` with another shape of as many elements; `v` itself if it has that shape already.
ValueId reshape(Graph& g, ValueId v, const Shape& shape);

// A gradient `dy` of a value broadcast from `shape`: summed over the broadcast dims.
ValueId unbroadcast(Graph& g, ValueId dy, const Shape& shape);

// `v` broadcast to `shape`; `v` itself if it has that shape already.
ValueId expand(Graph& g, ValueId v, const Shape& shape);

// `v` cast to `t`; `v` itself if it is that already.
ValueId cast(Graph& g, ValueId v, DType t);

// A rank-0 constant of the dtype of `like`.
ValueId scalar_like(Graph& g, double x, ValueId like);

// Examples of an op of one input: the first dtype in several shapes, the others in one.
std::vector<Example> unary_examples(const std::vector<DType>& dtypes, double low = 0,
                                    double high = 0);
inline const std::vector<DType> kFloatDTypes = {DType::kF32, DType::kF64, DType::kF16,
                                                DType::kBF16};

// Of examples of ops that only move elements: one dtype of each size and kind, and bf16, besides
// f32.
inline const std::vector<DType> kMovedDTypes = {DType::kF64, DType::kF16, DType::kBF16, DType::kU8,
                                                DType::kI32, DType::kI64, DType::kBool};
// `list` and one more example for each of those.
std::vector<Example> in_moved_dtypes(std::vector<Example> list, Example (*make)(DType));

// Walks `out` in row-major order: calls f(i, start + sum of coordinate * step).
template <typename F>
void for_each_strided(const Shape& out, std::span<const int64_t> steps, int64_t start, F f) {
  std::vector<int64_t> at(steps.size(), 0);
  int64_t offset = start;
  for (int64_t i = 0; i < out.count(); ++i) {
    f(i, offset);
    for (int d = out.rank() - 1; d >= 0; --d) {
      offset += steps[d];
      if (++at[d] < out[d]) break;
      at[d] = 0;
      offset -= steps[d] * out[d];
    }
  }
}

// Calls f(flat index of a, flat index of b, … per shape) for every element of `out` in row-major
// order; each of `shapes` broadcasts to `out`.
template <typename F>
void for_each_broadcast(const Shape& out, std::span<const Shape> shapes, F f) {
  const int rank = out.rank();
  std::vector<std::vector<int64_t>> step(shapes.size(), std::vector<int64_t>(rank, 0));
  for (size_t s = 0; s < shapes.size(); ++s) {
    const std::vector<int64_t> strides = shapes[s].strides();
    const int skip = rank - shapes[s].rank();
    for (int d = skip; d < rank; ++d) step[s][d] = shapes[s][d - skip] == 1 ? 0 : strides[d - skip];
  }
  std::vector<int64_t> at(rank, 0), offset(shapes.size(), 0);
  for (int64_t i = 0; i < out.count(); ++i) {
    f(i, std::span<const int64_t>(offset));
    for (int d = rank - 1; d >= 0; --d) {
      for (size_t s = 0; s < shapes.size(); ++s) offset[s] += step[s][d];
      if (++at[d] < out[d]) break;
      at[d] = 0;
      for (size_t s = 0; s < shapes.size(); ++s) offset[s] -= step[s][d] * out[d];
    }
  }
}

}  // namespace ndtrain
