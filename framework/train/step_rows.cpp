#include "framework/train/step_rows.h"

#include <algorithm>
#include <cmath>

#include "framework/core/error.h"
#include "framework/core/finite.h"
#include "framework/train/evaluate.h"

namespace ndtrain {

void fetch_rows(Dataset& data, std::span<const int64_t> rows, int64_t of, int64_t classes,
                const StepRows& to) {
  const auto n = rows.size();
  auto labels = to.labels.mutable_as<int64_t>();
  auto weights = to.weights.mutable_as<float>();
  std::ranges::fill(labels, 0);
  std::ranges::fill(weights, 0.0F);
  for (size_t i = 0; i < n; ++i) {
    weights[i] = static_cast<float>(data.weight(rows[i])) / static_cast<float>(of);
  }
  data.fetch(rows, to.features, labels.first(n));
  for (size_t i = 0; i < n; ++i) {
    if (labels[i] < 0 || labels[i] >= classes) {
      throw Error("label ", labels[i], " but the model has ", classes, " classes");
    }
  }
}

void add_rows(ShardReport& to, float loss, const Tensor& logits, const StepRows& from,
              int64_t rows) {
  to.loss += loss;
  if (!std::isfinite(loss)) {
    if (!std::ranges::all_of(from.features, [](const Tensor& t) { return all_finite(t); })) {
      to.sound = 0;
    }
    return;
  }
  const auto classes = static_cast<size_t>(logits.shape()[1]);
  const auto labels = from.labels.as<int64_t>();
  for (size_t i = 0; i < static_cast<size_t>(rows); ++i) {
    const auto row = logits.as<float>().subspan(i * classes, classes);
    to.hits += std::ranges::max_element(row) - row.begin() == labels[i] ? 1.0F : 0.0F;
    to.top5 += in_top5(row, labels[i]) ? 1.0F : 0.0F;
  }
}

}  // namespace ndtrain
