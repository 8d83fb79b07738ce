// Which labels are wrong: confident learning (Northcutt, Jiang and Chuang, "Confident learning:
// estimating uncertainty in dataset labels", JAIR 2021).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ndp/similarity/held_out.h"

namespace ndtrain::ndp {

// An example, and what it may be instead of what its label says.
struct LabelNoise {
  size_t example = 0;
  size_t suggested = 0;        // the likeliest other class
  double score = 0;            // probability of its label
  double suggested_score = 0;  // and of the class that is suggested
};

// How many labels are wrong. The threshold of a class is the mean probability of it among examples
// that are labelled so. An example counts as the likeliest class that reaches its threshold, if any
// does; of each class, the share of those that count as another one is taken for its share of wrong
// labels (the calibrated joint).
size_t estimated_noise(std::span<const size_t> labels, const Probabilities& held_out);

// So many examples as that, but for those whose label is the likeliest class: those first whose
// label is least likely beside what is suggested, by the ratio. `held_out`: of each example, by
// others than itself. Throws Error where these are not as many as labels.
std::vector<LabelNoise> contradicted_labels(std::span<const size_t> labels,
                                            const Probabilities& held_out);

}  // namespace ndtrain::ndp
