#pragma once

#include "framework/graph/model.h"
#include "framework/train/dataset.h"

namespace ndtrain::cli {

// `count` rows as the model takes them, normally distributed, with random labels.
TensorDataset random_rows(const Model& model, int64_t count, uint64_t seed);

}  // namespace ndtrain::cli
