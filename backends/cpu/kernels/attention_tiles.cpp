#include "backends/cpu/kernels/attention_tiles.h"

#include "backends/cpu/gemm/transpose.h"
#include "backends/cpu/kernels/sizes.h"

namespace ndtrain::cpu {

AttentionShape::AttentionShape(const Node& node, int q)
    : rows_first(node.i("heads_axis", 1) == 2),
      packed(node.i("packed", 0) != 0),
      scale(static_cast<float>(node.f("scale"))) {
  const ndt_tensor_type &queries_type = node.in(q), &keys_type = node.in(port(q, 1)),
                        &values_type = node.in(port(q, 2));
  for (const ndt_tensor_type* t : {&queries_type, &keys_type, &values_type}) {
    if (t->rank != 4) invalid("queries, keys and values are not of rank 4");
    if (t->dtype != queries_type.dtype) unsupported("mixed dtypes");
    if (cpu::count(*t) == 0) unsupported("it is empty");
  }
  const int of_heads = rows_first ? 2 : 1, of_rows = 3 - of_heads;
  images = queries_type.dims[0];
  heads = queries_type.dims[of_heads] / (packed ? 3 : 1);
  queries = queries_type.dims[of_rows];
  keys = keys_type.dims[of_rows];
  depth = queries_type.dims[3];
  width = values_type.dims[3];
  const int64_t parts = packed ? 3 : 1;
  if (cpu::count(keys_type) != all_heads() * parts * keys * depth ||
      cpu::count(values_type) != all_heads() * parts * keys * width || (packed && !rows_first)) {
    invalid("keys and values do not fit the queries");
  }
}

HeadRows AttentionShape::rows_of(int64_t head, int64_t rows, int64_t n, int part) const {
  if (!rows_first) return {head * rows * n, n};
  const int64_t before = packed && part > 0 ? part * heads : 0;
  const int64_t step = packed && part >= 0 ? 3 * heads : heads;
  return {(head / heads * rows * step + before + head % heads) * n, step * n};
}

AttentionMask::AttentionMask(const Node& node, int input, const AttentionShape& shape)
    : heads_(shape.heads), queries_(shape.queries), present_(node.has(input)) {
  if (!present_) return;
  const ndt_tensor_type& t = node.in(input);
  const int64_t scores[] = {shape.images, shape.heads, shape.queries, shape.keys};
  if (t.rank > 4) invalid("the mask is of rank ", t.rank);
  int64_t step = 1;
  for (int d = t.rank; d-- > 0;) {
    const int of = d + 4 - t.rank;
    if (t.dims[d] != 1 && t.dims[d] != scores[of]) invalid("the mask does not broadcast");
    if (t.dims[d] != 1) steps_[of] = step;
    step *= t.dims[d];
  }
}

template <typename T>
void AttentionMask::add(const T* mask, int64_t head, int64_t panel, int64_t key, int64_t keys,
                        float* scores) const {
  const auto [of_image, of_head, of_query, of_key] = steps_;
  const T* from = mask + head / heads_ * of_image + head % heads_ * of_head +
                  panel * kTileCols * of_query + key * of_key;
  const int64_t n = std::min<int64_t>(kTileCols, queries_ - panel * kTileCols);
  for (int64_t t = 0; t < keys; ++t) {
    for (int64_t j = 0; j < n; ++j) {
      scores[t * kTileCols + j] += static_cast<float>(from[t * of_key + j * of_query]);
    }
  }
}

template void AttentionMask::add(const float*, int64_t, int64_t, int64_t, int64_t, float*) const;
template void AttentionMask::add(const F16*, int64_t, int64_t, int64_t, int64_t, float*) const;
template void AttentionMask::add(const BF16*, int64_t, int64_t, int64_t, int64_t, float*) const;

int64_t FloatParts::add(int64_t floats) {
  const int64_t at = floats_;
  floats_ += whole_lines(floats);
  return at;
}

void multiply_panel(const float* rows_packed, const RowPanels& rows, int64_t k, const float* panel,
                    int64_t lanes, float* to, bool add) {
  const GemmBlock block{rows, 0, rows.count(), 0, lanes, to};
  const GemmStep step{rows_packed, k, 0, k, panel, 0, true, true};
  multiply(block, step, {to, kTileCols, 0, kTileCols}, {.residual = add ? to : nullptr});
}

template <typename T>
void store_upright(const float* x, int64_t n, const float* factor, int64_t queries, T* y,
                   int64_t step) {
  for (int64_t j0 = 0; j0 < queries; j0 += kLanes) {
    const Vec by = load(factor + j0);
    const int64_t rows = std::min<int64_t>(kLanes, queries - j0);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      Vec v[kLanes];
#pragma GCC unroll 16
      for (int r = 0; r < kLanes; ++r) v[r] = load(x + (i + r) * kTileCols + j0) * by;
      transpose(v);
#pragma GCC unroll 16
      for (int j = 0; j < kLanes; ++j) {
        if (j >= rows) break;
        T* to = y + (j0 + j) * step + i;
        if constexpr (std::is_same_v<T, float>) {
          store(to, v[j]);
        } else {
          for (int lane = 0; lane < kLanes; ++lane) to[lane] = T(v[j][lane]);
        }
      }
    }
    for (; i < n; ++i) {
      for (int64_t j = 0; j < rows; ++j) {
        y[(j0 + j) * step + i] = T(x[i * kTileCols + j0 + j] * factor[j0 + j]);
      }
    }
  }
}

template void store_upright(const float*, int64_t, const float*, int64_t, float*, int64_t);
template void store_upright(const float*, int64_t, const float*, int64_t, F16*, int64_t);
template void store_upright(const float*, int64_t, const float*, int64_t, BF16*, int64_t);

}  // namespace ndtrain::cpu
