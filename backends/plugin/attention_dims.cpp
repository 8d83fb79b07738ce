#include "backends/plugin/attention_dims.h"

namespace ndtrain::plugin {

AttentionDims::AttentionDims(const Node& node, int q)
    : rows_first(node.i("heads_axis", 1) == 2),
      packed(node.i("packed", 0) != 0),
      scale(static_cast<float>(node.f("scale"))) {
  const ndt_tensor_type &queries_type = node.in(q), &keys_type = node.in(port(q, 1)),
                        &values_type = node.in(port(q, 2));
  for (const ndt_tensor_type* t : {&queries_type, &keys_type, &values_type}) {
    if (t->rank != 4) invalid("queries, keys and values are not of rank 4");
    if (t->dtype != queries_type.dtype) unsupported("mixed dtypes");
    if (count(*t) == 0) unsupported("it is empty");
  }
  const int of_heads = rows_first ? 2 : 1, of_rows = 3 - of_heads;
  images = queries_type.dims[0];
  heads = queries_type.dims[of_heads] / (packed ? 3 : 1);
  queries = queries_type.dims[of_rows];
  keys = keys_type.dims[of_rows];
  depth = queries_type.dims[3];
  width = values_type.dims[3];
  const int64_t parts = packed ? 3 : 1;
  if (count(keys_type) != all_heads() * parts * keys * depth ||
      count(values_type) != all_heads() * parts * keys * width || (packed && !rows_first)) {
    invalid("keys and values do not fit the queries");
  }
}

HeadRows AttentionDims::rows_of(int64_t head, int64_t rows, int64_t n, int part) const {
  if (!rows_first) return {head * rows * n, n};
  const int64_t before = packed && part > 0 ? part * heads : 0;
  const int64_t step = packed && part >= 0 ? 3 * heads : heads;
  return {(head / heads * rows * step + before + head % heads) * n, step * n};
}

MaskSteps::MaskSteps(const Node& node, int input, const AttentionDims& dims)
    : present(node.has(input)) {
  if (!present) return;
  const ndt_tensor_type& t = node.in(input);
  if (t.rank > 4) invalid("the mask is of rank ", t.rank);
  if (t.rank == 4) masks = t.dims[0];
  if (masks < 1 || dims.images % masks != 0) invalid("masks do not divide the images");
  const int64_t scores[] = {masks, dims.heads, dims.queries, dims.keys};
  int64_t* const steps[] = {&image, &head, &query, &key};
  int64_t step = 1;
  for (int d = t.rank; d-- > 0;) {
    const int of = d + 4 - t.rank;
    if (t.dims[d] != 1 && t.dims[d] != scores[of]) invalid("the mask does not broadcast");
    if (t.dims[d] != 1) *steps[of] = step;
    step *= t.dims[d];
  }
}

}  // namespace ndtrain::plugin
