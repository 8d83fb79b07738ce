// One job in time: a deterministic simulation of stores, link and Tuner over pieces of runs.
// docs/planner.md says what it assumes.
#pragma once

#include <map>
#include <string>

#include "tuner/jobs/job_spec.h"
#include "tuner/plan/plan_inputs.h"

namespace ndtrain::tuner {

inline constexpr double kInventoryBytes = 36;  // per photo, to the Tuner: digest and label
inline constexpr double kWantedBytes = 4;      // per photo, to the store
inline constexpr double kWireOverhead = 1.05;  // headers of TCP, IP, Ethernet and our own messages
inline constexpr double kEngineBatch = 32;     // photos that an engine computes at once

struct Timeline {
  double makespan_s = 0;   // until the model is trained, and written
  double publish_s = 0;    // then, until its head is at every store
  double begin_s = 0;      // when stores begin: the model and what is wanted have arrived
  double first_run_s = 0;  // when training begins
  // Busy time, of the slower half where a machine has cores and accelerators.
  double busiest_store_s = 0, all_stores_s = 0, tuner_s = 0;
  double link_s = 0;  // the busier direction of the shared link
  // As a job's report has them: what it trains on and evaluates; and of each run the slowest
  // store's time from its first row's arrival to its last one's, without what it works on them.
  double training_s = 0, network_s = 0;
  double bytes_up = 0, bytes_down = 0;  // to and from the Tuner, without kWireOverhead
};

// `inputs` are valid; `stores` is not used in kIdeal.
Timeline simulate(const PlanInputs& inputs, const CutCost& cut, JobMode mode, int stores, int runs);

// As a job's report names them (kPredictedStages), of a job of so many photos.
std::map<std::string, double> stages_of(const Timeline& time, double photos);

// The machines of a mode.
const Machine& store_machine(const PlanCosts& costs, JobMode mode);
const Machine& tuner_machine(const PlanCosts& costs, JobMode mode);

}  // namespace ndtrain::tuner
