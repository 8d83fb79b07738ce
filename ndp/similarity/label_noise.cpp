#include "ndp/similarity/label_noise.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "framework/core/error.h"

namespace ndtrain::ndp {
namespace {

// Of a class that nothing is labelled as: more than anything reaches.
constexpr double kOutOfReach = 2;

std::vector<double> thresholds_of(std::span<const size_t> labels, const Probabilities& held_out) {
  std::vector<double> sum(held_out.classes), count(held_out.classes), threshold(held_out.classes);
  for (size_t e = 0; e < labels.size(); ++e) {
    sum.at(labels[e]) += held_out.of(e)[labels[e]];
    ++count[labels[e]];
  }
  for (size_t c = 0; c < sum.size(); ++c) {
    threshold[c] = count[c] > 0 ? sum[c] / count[c] : kOutOfReach;
  }
  return threshold;
}

// The likeliest class that reaches its threshold.
std::optional<size_t> confident_class(std::span<const double> p, std::span<const double> least) {
  std::optional<size_t> best;
  for (size_t c = 0; c < p.size(); ++c) {
    if (p[c] >= least[c] && (!best || p[c] > p[*best])) best = c;
  }
  return best;
}

LabelNoise beside_the_likeliest(size_t example, size_t label, std::span<const double> p) {
  LabelNoise n{.example = example, .suggested = label, .score = p[label]};
  for (size_t c = 0; c < p.size(); ++c) {
    if (c == label || (n.suggested != label && p[c] <= n.suggested_score)) continue;
    n.suggested = c;
    n.suggested_score = p[c];
  }
  return n;
}

void check(std::span<const size_t> labels, const Probabilities& held_out) {
  if (labels.size() == held_out.size()) return;
  throw Error(labels.size(), " labels, and probabilities of ", held_out.size(), " examples");
}

}  // namespace

size_t estimated_noise(std::span<const size_t> labels, const Probabilities& held_out) {
  check(labels, held_out);
  const std::vector<double> least = thresholds_of(labels, held_out);
  std::vector<double> labelled(held_out.classes), counted(labelled), as_labelled(labelled);
  for (size_t e = 0; e < labels.size(); ++e) {
    ++labelled[labels[e]];
    const std::optional<size_t> seems = confident_class(held_out.of(e), least);
    if (!seems) continue;
    ++counted[labels[e]];
    if (*seems == labels[e]) ++as_labelled[labels[e]];
  }
  double wrong = 0;
  for (size_t c = 0; c < labelled.size(); ++c) {
    if (counted[c] > 0) wrong += labelled[c] * (1 - as_labelled[c] / counted[c]);
  }
  return static_cast<size_t>(std::lround(wrong));
}

std::vector<LabelNoise> contradicted_labels(std::span<const size_t> labels,
                                            const Probabilities& held_out) {
  const size_t most = estimated_noise(labels, held_out);
  std::vector<LabelNoise> found;
  for (size_t e = 0; e < labels.size(); ++e) {
    const LabelNoise n = beside_the_likeliest(e, labels[e], held_out.of(e));
    if (n.suggested_score > n.score) found.push_back(n);
  }
  std::ranges::sort(found, {}, [](const LabelNoise& n) {
    return std::tuple(n.score / n.suggested_score, n.score, n.example);
  });
  found.resize(std::min(found.size(), most));
  return found;
}

}  // namespace ndtrain::ndp
