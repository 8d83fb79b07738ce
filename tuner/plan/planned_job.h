#pragma once

#include "tuner/jobs/job_spec.h"
#include "tuner/jobs/store_cover.h"
#include "tuner/plan/plan_inputs.h"

namespace ndtrain::tuner {

// What is known of the first `most` stores of `cover`, of which plans look at so many at most.
// `inputs.links` are theirs, in the same order, or empty.
void take_stores(const StoreCover& cover, int most, PlanInputs& inputs);

// `spec`, a fine-tuning, with the mode, cut and number of runs, from 1 to 4, by which it is
// predicted to be done first, and why; where it is for all stores, by so many of `cover` as that
// takes, fewest first, and by all of them where fewer could not be named. `inputs` were measured
// with its model, head and freeze; their `disk` holds where the job does not say its own, and their
// `stores` where it is for all. One that is promoted by rule keeps the cut where training begins:
// with another the stores would make features of the validation photos twice, by the extractor of
// the version in force, too. Throws Error when `inputs` are not valid.
JobSpec planned(JobSpec spec, PlanInputs inputs, const StoreCover& cover = {});

}  // namespace ndtrain::tuner
