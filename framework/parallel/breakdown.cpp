#include "framework/parallel/breakdown.h"

#include "framework/core/error.h"

namespace ndtrain {
Breakdown breakdown_named(std::string_view name) {
  if (name == "rs") return Breakdown::kReduceScatters;
  if (name == "ag") return Breakdown::kAllGathers;
  if (name == "none") return Breakdown::kNeither;
  throw Error("there are rs, ag and none, not '", name, "'");
}

std::optional<PlannedOp::Kind> carried_out(PlannedOp::Kind planned, Breakdown only) {
  if (only == Breakdown::kWhole) return planned;
  if (only == Breakdown::kNeither) return {};
  const bool scatters = only == Breakdown::kReduceScatters;
  if (planned == PlannedOp::Kind::kAllReduce) {
    return scatters ? PlannedOp::Kind::kReduceScatter : PlannedOp::Kind::kAllGather;
  }
  if (takes_gradients(planned) != scatters) return {};
  return planned;
}

}  // namespace ndtrain
