// Labels that what their photos show contradicts: found by confident learning
// (ndp/similarity/label_noise.h) over held-out probabilities, the mean of those of a linear probe
// and of the nearest neighbours. Nothing is changed but the list of issues, which reviews begin
// with.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/json_fwd.h"
#include "ndp/jobs/truth_rows.h"
#include "ndp/similarity/held_out.h"

namespace ndtrain::ndp {

// Of a class that takes part: a fold for each.
inline constexpr size_t kFewestToRefine = 5;

struct RefinedLabel {
  LabelRow label;
  double score = 0;  // held-out probability of its class
  int64_t suggested = 0;
  std::string suggested_name;
  double suggested_score = 0;
};

struct RefinedLabels {
  TruthRows truth;         // that took part
  Probabilities held_out;  // of each of its examples, by the others
  int64_t rare = 0;        // labels that took no part, of classes with fewer than kFewestToRefine
  double c = 0;            // of the probe
  std::vector<RefinedLabel> issues;  // worst first
};

Json to_json(const RefinedLabel& label);

// Deterministic: the same labels and rows give the same list, in whatever order they are. Throws
// Error where fewer than two classes can take part.
RefinedLabels refine_labels(const TruthRows& truth, const KnownPhotos& known, ThreadPool& threads);

// As issues of the task, for reviews to begin with.
void keep_issues(LabelDb& db, int64_t task, const RefinedLabels& refined);

// How many labels may be changed at most: "20", or "0.05" and "5%" of those that were looked at.
// Nullopt: it says none of that.
std::optional<int64_t> bound_named(std::string_view text, int64_t looked_at);

// The first issues of imports and folders, at most so many: what a person said is for people to
// change.
std::vector<RefinedLabel> changeable(const RefinedLabels& refined, int64_t most);

// Labels as they are, as CSV that `ndtrain labels import` takes: so what follows can be undone.
std::string record_of(const std::vector<RefinedLabel>& changed);

// Says what is suggested, as an import of just now. Returns how many labels that changed.
int64_t apply_suggested(LabelDb& db, int64_t task, const std::vector<RefinedLabel>& changed,
                        int64_t now);

}  // namespace ndtrain::ndp
