// What the shards of a step say of it, taken together.
#pragma once

#include <span>
#include <string>

#include "framework/train/gradient_sync.h"
#include "framework/train/loss_scale.h"

namespace ndtrain {

inline constexpr const char* kDiverged =
    "; the training has diverged: begin it anew with a lower learning rate";

struct StepReport {
  float loss = 0;                    // added up in the order of a tree
  double hits = 0, top5 = 0;         // rows
  bool finite = true, sound = true;  // as of a ShardReport, of all shards
};

StepReport sum_of(std::span<const ShardReport> reports);

// Why the training cannot go on from such a step; "": it can, without the step where it is not
// finite, which a lower scale of the loss may mend.
std::string why_lost(const StepReport& step, const LossScale& scale);

}  // namespace ndtrain
