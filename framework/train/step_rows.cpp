#include "framework/train/step_rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/finite.h"
#include "framework/train/evaluate.h"

namespace ndtrain {
namespace {

// That a row has room for.
int64_t labels_of_row(const Tensor& labels) {
  return labels.shape().rank() == 2 ? labels.shape()[1] : 1;
}

}  // namespace

void fetch_rows(Dataset& data, std::span<const int64_t> rows, int64_t of, int64_t classes,
                const StepRows& to) {
  const int64_t given = data.labels_of_row(), room = labels_of_row(to.labels);
  if (given > room) throw Error(given, " labels of a row, but the step takes ", room);
  auto labels = to.labels.mutable_as<int64_t>();
  auto weights = to.weights.mutable_as<float>();
  std::ranges::fill(labels, 0);
  std::ranges::fill(weights, 0.0F);
  std::vector<int64_t> fetched(rows.size() * static_cast<size_t>(given));
  data.fetch(rows, to.features, fetched);
  for (size_t i = 0; i < fetched.size(); ++i) {
    if (fetched[i] < 0 || fetched[i] >= classes) {
      throw Error("label ", fetched[i], " but the model has ", classes, " classes");
    }
    const size_t row = i / static_cast<size_t>(given), k = i % static_cast<size_t>(given);
    const size_t at = row * static_cast<size_t>(room) + k;
    labels[at] = fetched[i];
    weights[at] = static_cast<float>(data.weight(rows[row], static_cast<int64_t>(k))) /
                  static_cast<float>(of);
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
  const auto of_row = static_cast<size_t>(labels_of_row(from.labels));
  for (size_t i = 0; i < static_cast<size_t>(rows); ++i) {
    const auto row = logits.as<float>().subspan(i * classes, classes);
    to.hits += std::ranges::max_element(row) - row.begin() == labels[i * of_row] ? 1.0F : 0.0F;
    to.top5 += in_top5(row, labels[i * of_row]) ? 1.0F : 0.0F;
  }
}

}  // namespace ndtrain
