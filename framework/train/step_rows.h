// The rows of a step on their way into a graph, and what it makes of them.
#pragma once

#include <cstdint>
#include <span>

#include "framework/train/dataset.h"
#include "framework/train/gradient_sync.h"

namespace ndtrain {

// Where they go: features as a dataset gives them; labels and what each weighs, [rows], or
// [rows, n] with room for n labels of a row.
struct StepRows {
  std::span<Tensor> features;
  Tensor& labels;
  Tensor& weights;
};

// Rows, at most those that there is room for; each label weighs its Dataset::weight() / `of`, what
// is left over nothing. Throws Error for a label that is none of `classes`, and for more labels of
// a row than there is room for.
void fetch_rows(Dataset& data, std::span<const int64_t> rows, int64_t of, int64_t classes,
                const StepRows& to);

// Adds the loss of `rows` rows to a shard's report, and how many of their classes, the first
// labels, are found, first or among the five best.
void add_rows(ShardReport& to, float loss, const Tensor& logits, const StepRows& from,
              int64_t rows);

}  // namespace ndtrain
