#include "ndp/jobs/suggest_labels.h"

#include <algorithm>
#include <cmath>

#include "framework/core/error.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kMostFolds = 5;
constexpr double kUsualC = 0.1;  // where nothing can be held out

std::vector<size_t> rows_without(const TruthRows& truth, size_t rows) {
  std::vector<bool> is_example(rows);
  for (const ProbeExample& e : truth.examples) is_example[e.row] = true;
  std::vector<size_t> others;
  for (size_t i = 0; i < rows; ++i) {
    if (!is_example[i]) others.push_back(i);
  }
  return others;
}

size_t fewest_of_a_class(const TruthRows& truth) {
  std::vector<size_t> counts(truth.classes.size());
  for (const ProbeExample& e : truth.examples) ++counts[e.label];
  return *std::ranges::min_element(counts);
}

bool neighbours_are_better(const SuggestedLabels& s, size_t examples) {
  if (!s.probe_accuracy) return false;
  const double p = *s.probe_accuracy;
  const double error = std::sqrt(std::max(p * (1 - p), 0.01) / static_cast<double>(examples));
  return *s.neighbours_accuracy > p + error;
}

void choose(const TruthRows& truth, const KnownPhotos& known, const EmbeddingRows& scaled,
            ThreadPool& threads, SuggestedLabels& to) {
  const size_t classes = truth.classes.size(),
               folds = std::min(kMostFolds, fewest_of_a_class(truth));
  to.c = kUsualC;
  if (folds >= 2) {
    const HeldOutProbe probe = choose_probe(scaled, truth.examples, classes,
                                            folds_of(truth.examples, classes, folds), threads);
    to.c = probe.c;
    to.probe_accuracy = accuracy(truth.examples, probe.held_out);
    std::vector<size_t> rows;
    for (const ProbeExample& e : truth.examples) rows.push_back(e.row);
    to.neighbours_accuracy =
        accuracy(truth.examples, by_neighbours(known.rows, rows, truth.examples, classes, threads));
  }
  to.method =
      neighbours_are_better(to, truth.examples.size()) ? "nearest neighbours" : "linear probe";
}

}  // namespace

SuggestedLabels suggest_labels(const TruthRows& truth, const KnownPhotos& known,
                               ThreadPool& threads) {
  const size_t classes = truth.classes.size();
  if (classes < 2) {
    throw Error(
        "examples of two classes at least are needed, and people, imports and folders name ",
        classes, " among these photos (", truth.without_embedding,
        " labelled photos are not among them): label some by ndtrain labels set or import");
  }
  SuggestedLabels result;
  const EmbeddingRows scaled = centred(known.rows);
  choose(truth, known, scaled, threads, result);
  const std::vector<size_t> asked = rows_without(truth, known.rows.size());
  Probabilities p(asked.size(), classes);
  if (result.method == "linear probe") {
    const LinearProbe probe = fit_probe(scaled, truth.examples, classes, result.c, threads);
    for (size_t i = 0; i < asked.size(); ++i) probe.probabilities(scaled.row(asked[i]), p.of(i));
  } else {
    p = by_neighbours(known.rows, asked, truth.examples, classes, threads);
  }
  for (size_t i = 0; i < asked.size(); ++i) {
    const auto best = std::ranges::max_element(p.of(i));
    result.suggestions.push_back({asked[i], static_cast<size_t>(best - p.of(i).begin()), *best});
  }
  return result;
}

Digest content_of(const SuggestedLabels& suggested, const TruthRows& truth, const Digest& model) {
  Sha256 hash;
  hash.field("suggested labels").field(to_hex(model)).field(suggested.method);
  for (const LabelRow& label : truth.labels) {
    hash.field(to_hex(label.digest)).field(label.class_name);
  }
  return hash.finish();
}

}  // namespace ndtrain::ndp
