// Attention by tiles (Dao et al., "FlashAttention", 2022; "FlashAttention-2", 2023): what its
// kernel and that of its gradient share. Some keys by one panel of kTileCols queries at a time:
// scores lie as [key][query], a query to a lane. So the product of packed keys and packed queries
// gives them, so their softmax needs no sum across lanes, and so the next product takes them as its
// packed right side.
#pragma once

#include <cstdint>

#include "backends/cpu/gemm/packed_gemm.h"
#include "backends/cpu/kernels/kernel.h"
#include "backends/plugin/attention_dims.h"

namespace ndtrain::cpu {

struct AttentionShape : AttentionDims {
  using AttentionDims::AttentionDims;
  int64_t panels() const { return (queries + kTileCols - 1) / kTileCols; }
  int64_t queries_of(int64_t panel) const {
    return std::min<int64_t>(kTileCols, queries - panel * kTileCols);
  }
  // Lanes of a panel that are computed: whole vectors.
  int64_t lanes_of(int64_t panel) const { return queries_of(panel) <= kLanes ? kLanes : kTileCols; }
};

// Keys are taken in blocks, by their number alone.
class KeyBlocks {
 public:
  explicit KeyBlocks(int64_t keys) : keys_(keys), count_((keys + kMost - 1) / kMost) {}
  int64_t count() const { return count_; }
  int64_t begin(int64_t i) const { return i * keys_ / count_; }
  int64_t longest() const { return std::min(keys_, (keys_ + count_ - 1) / count_); }

 private:
  static constexpr int64_t kMost = 256;  // whose packed keys and values are in L2
  int64_t keys_, count_;
};

// What is added to the scores.
class AttentionMask {
 public:
  AttentionMask(const Node& node, int input, const AttentionShape& shape)
      : steps_(node, input, shape), shape_(shape) {}
  bool present() const { return steps_.present; }
  // Adds to scores [keys from `key` on][kTileCols] of the panel's queries.
  template <typename T>
  void add(const T* mask, int64_t head, int64_t panel, int64_t key, int64_t keys,
           float* scores) const;

 private:
  MaskSteps steps_;
  AttentionShape shape_;
};

// Sizes of parts of a workspace, each of whole cache lines.
class FloatParts {
 public:
  int64_t add(int64_t floats);  // where it begins
  int64_t floats() const { return floats_; }

 private:
  int64_t floats_ = 0;
};

// to [rows][kTileCols] = packed rows by one packed panel, over k; + what is there.
void multiply_panel(const float* rows_packed, const RowPanels& rows, int64_t k, const float* panel,
                    int64_t lanes, float* to, bool add);

// y[j * step + i] = x[i][j] * factor[j] for i < n and the panel's queries j.
template <typename T>
void store_upright(const float* x, int64_t n, const float* factor, int64_t queries, T* y,
                   int64_t step);

}  // namespace ndtrain::cpu
