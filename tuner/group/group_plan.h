// Whether Tuners that train together share the rows of a step, or its stages, as a plan has it that
// is made of what nodes take the Tuner that leads, and messages between all of them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "framework/pipeline/planner/pipeline_plan.h"
#include "tuner/group/group_rules.h"

namespace ndtrain::tuner {

// Collective; nothing else may be under way. The plan of the stages; none: by rows. `head` is of
// the rules; `say` and `before` are rank 0's, the plan by which the training began: its
// micro-batches stay, since other ones train another model. Throws Error where stages are asked for
// that cannot be, RankLost.
std::optional<PipelinePlan> plan_group(Communicator& ranks, const GroupRules& rules,
                                       const Model& head, const Device& device, Clock& clock,
                                       const std::function<void(const std::string& line)>& say,
                                       const std::optional<PipelinePlan>& before = {});

}  // namespace ndtrain::tuner
