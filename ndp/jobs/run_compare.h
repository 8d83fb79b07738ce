// Several runs beside each other: the first is what the others are compared with. Deterministic.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/core/json_fwd.h"
#include "framework/train/class_quality.h"
#include "ndp/jobs/run_summary.h"

namespace ndtrain::ndp {

struct RunDifference {
  std::string what;                 // "--lr", "model"
  std::vector<std::string> values;  // one for each run; "" where it was not given
};

// In the order of the flags' names; not where model, photos and labels come from.
std::vector<RunDifference> different_settings(std::span<const RunSummary> runs);
// What the model, the photos with their labels, the program and what computed are, where they
// differ, and where they came from then.
std::vector<RunDifference> different_inputs(std::span<const RunSummary> runs);

struct ClassChange {
  std::string name;
  std::optional<ClassQuality> before, after;  // absent where the run does not have the class

  std::optional<double> f1() const;  // the change, where both have one
};

// By the confusion matrices of the validation photos: the largest fall of F1 first, then those that
// have no change of it, each in the order of their names. Empty where a run has no matrix.
std::vector<ClassChange> class_changes(const RunSummary& before, const RunSummary& after);

// "A", "B" and so on.
std::string letter_of(size_t run);
inline constexpr size_t kComparedRuns = 26;

Json comparison_json(std::span<const RunSummary> runs);
// One page that stands alone, with inline SVG curves.
std::string comparison_html(std::span<const RunSummary> runs);

}  // namespace ndtrain::ndp
