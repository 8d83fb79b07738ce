// Classes for photos that nobody has labelled, learned from a handful that somebody has: by a
// linear probe or by nearest neighbours, whichever is better on examples that were held out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ndp/jobs/truth_rows.h"
#include "ndp/similarity/held_out.h"

namespace ndtrain::ndp {

struct Suggestion {
  size_t row = 0;    // of the known photos
  size_t label = 0;  // of the truth's classes
  double score = 0;  // its probability
};

struct SuggestedLabels {
  std::string method;  // "linear probe" or "nearest neighbours"
  double c = 0;        // of the probe
  // Shares of held-out examples that each gets right; nullopt where a class has one example alone,
  // and nothing could be held out.
  std::optional<double> probe_accuracy, neighbours_accuracy;
  std::vector<Suggestion> suggestions;  // by their rows
};

// Of the rows that are no examples. Neighbours are taken where they are better than the probe by
// more than a standard error. Deterministic. Throws Error where there are fewer than two classes.
SuggestedLabels suggest_labels(const TruthRows& truth, const KnownPhotos& known,
                               ThreadPool& threads);

// What names the version that the suggestions are of: the same for the same model, method and
// examples.
Digest content_of(const SuggestedLabels& suggested, const TruthRows& truth, const Digest& model);

}  // namespace ndtrain::ndp
