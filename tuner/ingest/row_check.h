// Rows of stores as they may be kept: numbers, and classes that there are.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/shape.h"
#include "framework/core/status.h"
#include "ndp/labels/top_k_row.h"

namespace ndtrain::tuner {
using namespace ndp;

// Why a row is refused; "" when it is not. Any thread.
using RowCheck = std::function<std::string(std::string_view row)>;

// Of features, one row or several one after the other; `row_types` for a batch of 1.
RowCheck finite_features(std::vector<TensorType> row_types);

// Of the best classes of a model of so many: what read_label_row() refuses.
RowCheck known_classes(size_t classes);

// kCorrupt when a class is not below `classes` or a score is not a number.
Result<std::vector<RankedClass>> read_label_row(std::string_view row, size_t classes);

}  // namespace ndtrain::tuner
