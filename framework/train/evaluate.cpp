#include "framework/train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ndtrain {
namespace {

void count_row(Evaluation& e, std::span<const float> logits, int64_t label) {
  const auto classes = static_cast<int64_t>(logits.size());
  if (label < 0 || label >= classes) {
    throw Error("label ", label, " but the model has ", classes, " classes");
  }
  const float score = logits[static_cast<size_t>(label)];
  const int64_t best = std::ranges::max_element(logits) - logits.begin();
  const double loss = cross_entropy(logits, label);
  e.loss += loss;
  e.top1 += best == label && !std::isnan(score);
  e.top5 += in_top5(logits, label);
  if (e.confusion.empty()) e.confusion.resize(static_cast<size_t>(classes * classes));
  ++e.confusion[static_cast<size_t>(label * classes + best)];
  e.predicted.push_back(best);
  e.true_probability.push_back(static_cast<float>(std::exp(-loss)));
  ++e.rows;
}

}  // namespace

bool in_top5(std::span<const float> logits, int64_t label) {
  const float score = logits[static_cast<size_t>(label)];
  // Written so that a score that is not a number is never right.
  const auto higher = std::ranges::count_if(logits, [&](float x) { return !(x <= score); });
  return higher < 5 && !std::isnan(score);
}

double cross_entropy(std::span<const float> logits, int64_t label) {
  const double top = *std::ranges::max_element(logits);
  double sum = 0;
  for (float x : logits) sum += std::exp(x - top);
  return top + std::log(sum) - logits[static_cast<size_t>(label)];
}

Evaluation evaluate(BatchPlans& plans, Dataset& data, const std::vector<TensorType>& row_types) {
  Evaluation e;
  for (int64_t begin = 0; begin < data.size(); begin += plans.max_batch()) {
    const int64_t n = std::min(plans.max_batch(), data.size() - begin);
    std::vector<int64_t> rows(static_cast<size_t>(n)), labels(static_cast<size_t>(n));
    std::iota(rows.begin(), rows.end(), begin);
    std::vector<Tensor> inputs;
    for (const TensorType& t : row_types)
      inputs.emplace_back(TensorType{t.dtype, t.shape.with(0, n)});
    data.fetch(rows, inputs, labels);
    const Tensor logits = plans.run(inputs).at(0);
    const auto classes = static_cast<size_t>(logits.shape()[1]);
    for (size_t i = 0; i < rows.size(); ++i) {
      count_row(e, logits.as<float>().subspan(i * classes, classes), labels[i]);
    }
  }
  const double n = std::max<double>(1, static_cast<double>(e.rows));
  e.loss /= n;
  e.top1 /= n;
  e.top5 /= n;
  return e;
}

}  // namespace ndtrain
