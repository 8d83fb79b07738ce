// What a model is measured with where no rows are at hand.
#pragma once

#include "framework/graph/model.h"
#include "framework/train/dataset.h"

namespace ndtrain {

// `count` rows as the model takes them, normally distributed, with random labels.
TensorDataset random_rows(const Model& model, int64_t count, uint64_t seed);

}  // namespace ndtrain
