// What says which epoch of a training is the best one: something of the validation photos.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "framework/core/error.h"
#include "framework/train/class_quality.h"
#include "framework/train/evaluate.h"

namespace ndtrain::ndp {

enum class BestMetric { kTop1, kTop5, kLoss, kMacroF1 };

inline constexpr std::array<std::pair<BestMetric, std::string_view>, 4> kBestMetrics = {
    {{BestMetric::kTop1, "top1"},
     {BestMetric::kTop5, "top5"},
     {BestMetric::kLoss, "loss"},
     {BestMetric::kMacroF1, "macro-f1"}}};

inline std::string name_of(BestMetric metric) {
  for (const auto& [m, name] : kBestMetrics) {
    if (m == metric) return std::string(name);
  }
  return "";
}

// Throws Error.
inline BestMetric best_metric_named(std::string_view name) {
  for (const auto& [m, known] : kBestMetrics) {
    if (name == known) return m;
  }
  throw Error("unknown metric '", name, "'; there are top1, top5, loss and macro-f1");
}

// Higher is better: a loss is negative.
inline double score_of(const Evaluation& e, BestMetric metric) {
  switch (metric) {
    case BestMetric::kTop5:
      return e.top5;
    case BestMetric::kLoss:
      return -e.loss;
    case BestMetric::kMacroF1:
      return macro_f1(class_quality(e.confusion)).value_or(0);
    case BestMetric::kTop1:
      break;
  }
  return e.top1;
}

}  // namespace ndtrain::ndp
