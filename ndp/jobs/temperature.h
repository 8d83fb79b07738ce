// Temperature scaling (Guo et al., "On Calibration of Modern Neural Networks", ICML 2017): logits
// are divided by one number, which changes no order of classes, so that probabilities are what they
// seem on photos that were not trained on.
#pragma once

#include <cstdint>
#include <span>

#include "framework/graph/model.h"
#include "framework/runtime/batch_plans.h"
#include "framework/train/dataset.h"

namespace ndtrain::ndp {

// That with the least mean cross-entropy, from 1/20 to 20, to a millionth. `logits`: [rows,
// classes], `labels` below classes. Rows that are not finite do not count; 1 without others.
double fitted_temperature(std::span<const float> logits, std::span<const int64_t> labels);

// Of what `plans` makes of these rows; see evaluate().
double fitted_temperature(BatchPlans& plans, Dataset& data,
                          const std::vector<TensorType>& row_types);

// The same model, whose classifier (head.h) is divided by it. What follows a classifier, a ReLU or
// a mean, does not mind. Throws Error as find_classifier() does, and where something else shares
// its weights.
Model with_temperature(const Model& m, double temperature);

}  // namespace ndtrain::ndp
