// Where the queries, keys and values of FusedAttention (framework/ops/attention.cpp) lie: plain, of
// rank 4, heads before or behind the rows, apart or in one value.
#pragma once

#include <cstdint>

#include "backends/plugin/node.h"

namespace ndtrain::plugin {

// Rows of one head in a tensor: the first, and how far apart they are, in numbers.
struct HeadRows {
  int64_t first, step;
};

struct AttentionDims {
  int64_t images, heads, queries, keys, depth, width;
  bool rows_first;  // of the dims of a tensor, heads behind them
  bool packed;      // queries, keys and values are input `q`, heads behind heads
  float scale;

  // Its inputs from `q` on are queries, keys, values.
  AttentionDims(const Node& node, int q);
  int64_t all_heads() const { return images * heads; }
  HeadRows query_rows(int64_t head) const { return rows_of(head, queries, depth, 0); }
  HeadRows key_rows(int64_t head) const { return rows_of(head, keys, depth, 1); }
  HeadRows value_rows(int64_t head) const { return rows_of(head, keys, width, 2); }
  HeadRows result_rows(int64_t head) const { return rows_of(head, queries, width, -1); }
  // Which port is that of keys (1) or values (2), of ports from `q` on.
  int port(int q, int part) const { return packed ? q : q + part; }

 private:
  HeadRows rows_of(int64_t head, int64_t rows, int64_t n, int part) const;
};

// What is added to the scores, broadcast to [masks, heads, queries, keys]: image i has mask
// i % masks.
struct MaskSteps {
  bool present;
  int64_t masks = 1;
  int64_t image = 0, head = 0, query = 0, key = 0;  // 0 where it broadcasts

  MaskSteps(const Node& node, int input, const AttentionDims& dims);
  int64_t first(int64_t of, const AttentionDims& dims) const {  // of all heads' head `of`
    return of / dims.heads % masks * image + of % dims.heads * head;
  }
};

}  // namespace ndtrain::plugin
