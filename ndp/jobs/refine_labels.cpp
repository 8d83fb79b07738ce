#include "ndp/jobs/refine_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "framework/core/csv.h"
#include "framework/core/error.h"
#include "framework/core/json.h"
#include "ndp/similarity/label_noise.h"

namespace ndtrain::ndp {
namespace {

RefinedLabel refined_label(const TruthRows& truth, const LabelNoise& noise) {
  const ClassInfo& suggested = truth.classes[noise.suggested];
  return {.label = truth.labels[noise.example],
          .score = noise.score,
          .suggested = suggested.id,
          .suggested_name = suggested.name,
          .suggested_score = noise.suggested_score};
}

void check_classes(const RefinedLabels& refined) {
  const size_t n = refined.truth.classes.size();
  if (n >= 2) return;
  throw Error("labels of ", n, " classes have ", kFewestToRefine,
              " photos or more that people, imports or folders have labelled (", refined.rare,
              " labels are of rarer ones, and ", refined.truth.without_embedding,
              " of photos that are not among those named): two classes are needed; label more, or "
              "name the directory in which they are");
}

}  // namespace

Json to_json(const RefinedLabel& r) {
  return {{"path", r.label.path},
          {"label", r.label.class_name},
          {"probability", r.score},
          {"suggested", r.suggested_name},
          {"suggested_probability", r.suggested_score},
          {"source", name_of(r.label.source)}};
}

RefinedLabels refine_labels(const TruthRows& truth, const KnownPhotos& known, ThreadPool& threads) {
  RefinedLabels refined{.truth = without_rare_classes(truth, kFewestToRefine)};
  refined.rare = std::ssize(truth.examples) - std::ssize(refined.truth.examples);
  check_classes(refined);
  const std::vector<ProbeExample>& examples = refined.truth.examples;
  const size_t classes = refined.truth.classes.size();
  const HeldOutProbe probe = choose_probe(centred(known.rows), examples, classes,
                                          folds_of(examples, classes, kFewestToRefine), threads);
  std::vector<size_t> rows, labels;
  for (const ProbeExample& e : examples) {
    rows.push_back(e.row);
    labels.push_back(e.label);
  }
  refined.c = probe.c;
  refined.held_out =
      mean_of(probe.held_out, by_neighbours(known.rows, rows, examples, classes, threads));
  for (const LabelNoise& noise : contradicted_labels(labels, refined.held_out)) {
    refined.issues.push_back(refined_label(refined.truth, noise));
  }
  return refined;
}

void keep_issues(LabelDb& db, int64_t task, const RefinedLabels& refined) {
  std::vector<int64_t> looked_at;
  for (const LabelRow& label : refined.truth.labels) looked_at.push_back(label.photo);
  std::vector<LabelIssue> issues;
  for (const RefinedLabel& r : refined.issues) {
    issues.push_back({.photo = r.label.photo,
                      .class_id = r.label.class_id,
                      .score = r.score,
                      .suggested = r.suggested,
                      .suggested_score = r.suggested_score});
  }
  db.put_issues(task, looked_at, issues).or_throw();
}

std::optional<int64_t> bound_named(std::string_view text, int64_t looked_at) {
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0)) return {};
  if (percent) value /= 100;
  if (value < 1 || percent) {
    if (value > 1) return {};
    return static_cast<int64_t>(std::floor(value * static_cast<double>(looked_at)));
  }
  if (value != std::floor(value) || value > 1e15) return {};
  return static_cast<int64_t>(value);
}

std::vector<RefinedLabel> changeable(const RefinedLabels& refined, int64_t most) {
  std::vector<RefinedLabel> first;
  for (const RefinedLabel& r : refined.issues) {
    if (std::ssize(first) == most) break;
    if (r.label.source != LabelSource::kHuman) first.push_back(r);
  }
  return first;
}

std::string record_of(const std::vector<RefinedLabel>& changed) {
  std::string csv =
      csv_row({"path", "label", "changed_to", "probability", "changed_to_probability"});
  for (const RefinedLabel& r : changed) {
    csv += csv_row({r.label.path, r.label.class_name, r.suggested_name,
                    fmt::format("{:.6f}", r.score), fmt::format("{:.6f}", r.suggested_score)});
  }
  return csv;
}

int64_t apply_suggested(LabelDb& db, int64_t task, const std::vector<RefinedLabel>& changed,
                        int64_t now) {
  LabelBatch batch{.task = task, .source = LabelSource::kImport};
  for (const RefinedLabel& r : changed) {
    batch.labels.push_back(
        {.photo = r.label.photo, .class_id = r.suggested, .time = now, .just_now = true});
  }
  return db.put_labels(batch).or_throw().current;
}

}  // namespace ndtrain::ndp
