// Which way of doing a job is best: predictions for every legal cut, store count, number of runs
// and mode. Pure: no clock, no disk.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tuner/plan/timeline.h"

namespace ndtrain::tuner {

struct Prediction {
  JobMode mode = JobMode::kNdpipe;
  std::string cut;  // where the Tuner's own work begins in the modes without features
  int stores = 0;   // 0 in kIdeal
  int runs = 1;
  Timeline time;
  std::optional<double> dollars, joules;  // absent: a price or a power is unknown
  double disk_bytes = 0;                  // of features on the Tuner while the job lasts
  double cache_bytes = 0;  // of features that the store with the most photos can keep
  bool fits = true;        // PlanInputs::disk

  double bytes() const { return time.bytes_up + time.bytes_down; }
};

enum class Objective : uint8_t { kMakespan, kCost, kEnergy, kBytes };
Objective objective_named(std::string_view name);  // makespan, cost, energy, bytes; throws Error

// ndpipe at every cut; the other modes at the last one, behind which the least is left to train.
// Throws Error when `inputs` are not valid.
std::vector<Prediction> predict_all(const PlanInputs& inputs);

// Best first: by the objective, then time, then bytes, then as they came. What does not fit the
// disk goes behind what does. Ideal is a bound, not a choice: it goes last. Throws Error when what
// is to be minimised is unknown for one of the others.
std::vector<Prediction> ranked(std::vector<Prediction> predictions, Objective objective);
// Throws Error when nothing fits the disk.
Prediction best(std::vector<Prediction> predictions, Objective objective = Objective::kMakespan);

// What holds a prediction back, in one line for people.
std::string why(const Prediction& p);

// Things worth a line beside the table: features larger than photos, and what would help.
std::vector<std::string> remarks(const PlanInputs& inputs);

std::string size_text(double bytes);  // "173.1 KB"

}  // namespace ndtrain::tuner
