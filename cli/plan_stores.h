// ndtrain plan --from-tuner: what a running Tuner says of the stores by which a fine-tuning would
// be done.
#pragma once

#include <string>

#include "cli/context.h"
#include "cli/tuner_client.h"
#include "tuner/jobs/store_cover.h"
#include "tuner/plan/plan_profile.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

// Photos, numbers of stores and links go into `profile`, and of which photos the Tuner has features
// of this job's already. `job`: a fine-tuning of one collection, whose model the Tuner need not
// have. Throws Error: no store of the collection is here, the Tuner says too little.
StoreCover stores_for_plan(Context& context, const TunerClient& tuner, const Json& job,
                           Profile& profile);

// What of them `inputs` go by, those that are needed first.
Json to_json(const StoreCover& cover, const PlanInputs& inputs);
std::string store_lines(const StoreCover& cover, const PlanInputs& inputs);

}  // namespace ndtrain::cli
