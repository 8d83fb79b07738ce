#pragma once

#include <functional>
#include <vector>

#include "framework/runtime/batch_plans.h"
#include "framework/train/dataset.h"

namespace ndtrain {

struct Evaluation {
  int64_t rows = 0;
  double loss = 0;  // mean cross-entropy, without smoothing
  // Fractions. The prediction is the first of the best classes; a class is in the top 5 as
  // in_top5() has it. Scores that are not numbers are wrong.
  double top1 = 0, top5 = 0;
  std::vector<int64_t> confusion;       // [classes, classes], rows are the truth
  std::vector<int64_t> predicted;       // per row, in the dataset's order
  std::vector<float> true_probability;  // per row: the probability given to the true class
};

// `plans` gives logits [n, classes] for the dataset's inputs; `row_types` are their types for a
// batch of 1. Throws Error when a label is not below the number of classes.
Evaluation evaluate(BatchPlans& plans, Dataset& data, const std::vector<TensorType>& row_types);

// Whether fewer than five score higher than the label.
bool in_top5(std::span<const float> logits, int64_t label);

// Log of the sum of exponentials, and so cross-entropy, in double.
double cross_entropy(std::span<const float> logits, int64_t label);

}  // namespace ndtrain
