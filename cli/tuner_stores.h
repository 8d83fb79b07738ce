// What a Tuner knows of its stores, for plans.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/tuner_client.h"
#include "tuner/jobs/store_cover.h"
#include "tuner/plan/plan_inputs.h"

namespace ndtrain::cli {

// 0: not known.
struct TunerStores {
  int number = 0;     // of stores of one collection that are given work
  double photos = 0;  // of these, copies counted once for each
  // Bytes/s to the Tuner, as it has measured them: of the fastest store, which the Tuner's own link
  // carries at least, and of the slowest.
  double fastest = 0, slowest = 0;
  std::map<std::string, double> links = {};  // of each store that was measured
  int64_t measured = 0;                      // Unix seconds: the oldest of these
  bool asked = false;                        // a Tuner was
};

TunerStores stores_known_to(const TunerClient& tuner, const std::string& collection);
// The same when the link of a store has been measured, which a Tuner does within seconds of its
// coming: half a minute at most. At once where no store is known.
TunerStores stores_measured_by(const TunerClient& tuner, const std::string& collection);

// What POST /jobs/plan says: the stores that have what the job wants. Into `inputs` go their links,
// and how many photos' features of the job are at the Tuner already. Empty of an older Tuner.
tuner::StoreCover cover_in(const Json& plan, const TunerStores& known, tuner::PlanInputs& inputs);

}  // namespace ndtrain::cli
