// Trainings for a convergence profile: by ranks that are threads of this process, with sparse
// gradients, for a part of the epochs that a training has.
#pragma once

#include <optional>
#include <string>

#include "ndp/jobs/finetune.h"

namespace ndtrain::ndp {

struct ConvergenceRuns {
  // Data, model, what is trained and how, for so many epochs; without out, ranks and batch.
  FinetuneConfig training;
  int ranks = 2;
  int staleness = 0;
  std::string directory;  // for what they write, which is removed

  struct Place {
    const Device& device;  // deterministic
    Fs& fs;
    Clock& clock;
    Progress& progress;  // asked whether to stop
  };

  // The loss at the end, of validation photos, or of those that are trained on where there are no
  // others, with `batch` rows in a step of all ranks and this drop; infinite where it is no number.
  // None: interrupted. Throws Error as finetune() does.
  std::optional<double> loss(int64_t batch, double drop, const Place& place) const;
};

}  // namespace ndtrain::ndp
