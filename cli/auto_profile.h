// The profile that a fine-tuning is planned by: --auto and --profile.
#pragma once

#include <optional>

#include "cli/args.h"
#include "cli/context.h"
#include "cli/tuner_stores.h"
#include "tuner/jobs/job_spec.h"
#include "tuner/plan/measure.h"
#include "tuner/plan/plan_profile.h"

namespace ndtrain::cli {
using namespace tuner;

void declare_auto(ArgsSpec& args);

// What links carry, where the Tuner has measured that: of the fastest store for its own, of the
// slowest for each store's.
void put_links(const TunerStores& known, Profile& profile);

// What --profile auto goes by: what the model costs here, measured on drawn photos, or kept from
// the last time. `config` has the model and what of a job decides its costs.
Profile kept_profile(Context& context, MeasureConfig config);

// Absent: neither is given. --profile auto goes by kept_profile() and the photos of `known`; links
// are those of `known` in any case, where they were measured. Throws UsageError, Error.
std::optional<Profile> auto_profile(Context& context, const Args& args, const JobSpec& spec,
                                    const TunerStores& known);

}  // namespace ndtrain::cli
