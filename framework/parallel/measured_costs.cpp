#include "framework/parallel/measured_costs.h"

#include <algorithm>

#include "framework/core/error.h"
#include "framework/core/json.h"
#include "framework/parallel/between_ranks.h"

namespace ndtrain {
namespace {

std::string times_text(const StepTimes& t) {
  return json_text({t.steps, t.forward_s, t.backward_s, t.optimizer_s, t.step_s, t.exposed_s});
}

StepTimes times_of(const std::string& text) {
  const Json j = parse_json(text);
  return {.steps = j.at(0),
          .forward_s = j.at(1),
          .backward_s = j.at(2),
          .optimizer_s = j.at(3),
          .step_s = j.at(4),
          .exposed_s = j.at(5)};
}

}  // namespace

std::vector<StepTimes> gather_times(Communicator& communicator, const StepTimes& ours,
                                    const RankGroup& among) {
  std::vector<StepTimes> all;
  for (const std::string& text : gather(communicator, times_text(ours), among)) {
    all.push_back(times_of(text));
    if (all.back().forward_s.size() != ours.forward_s.size()) {
      throw Error("rank ", all.size() - 1, " has measured ", all.back().forward_s.size(),
                  " parameters, this rank ", ours.forward_s.size());
    }
  }
  return all;
}

bool set_slowest_times(std::span<const StepTimes> of_ranks, CostProfile& costs) {
  if (slowest_rank(of_ranks) < 0) return false;
  for (CostProfile::Layer& l : costs.layers) l.forward_s = l.backward_s = 0;
  double optimizer_s = 0;
  for (const StepTimes& t : of_ranks) {
    if (t.steps == 0) continue;
    for (size_t slot = 0; slot < costs.layers.size(); ++slot) {
      CostProfile::Layer& l = costs.layers[costs.layers.size() - 1 - slot];
      l.forward_s = std::max(l.forward_s, t.forward_s.at(slot));
      l.backward_s = std::max(l.backward_s, t.backward_s.at(slot));
    }
    optimizer_s = std::max(optimizer_s, t.optimizer_s);
  }
  costs.optimizer_s_per_element = optimizer_s / static_cast<double>(costs.parameter_count());
  return true;
}

int slowest_rank(std::span<const StepTimes> of_ranks) {
  int slowest = -1;
  double most_s = -1;
  for (size_t r = 0; r < of_ranks.size(); ++r) {
    if (of_ranks[r].steps == 0 || of_ranks[r].computing_s() <= most_s) continue;
    most_s = of_ranks[r].computing_s();
    slowest = static_cast<int>(r);
  }
  return slowest;
}

}  // namespace ndtrain
