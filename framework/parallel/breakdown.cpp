#include "framework/parallel/breakdown.h"

#include "framework/core/error.h"

namespace ndtrain {
namespace {

CommOp::Kind kind_of(PlannedOp::Kind kind) {
  switch (kind) {
    case PlannedOp::Kind::kReduceScatter:
      return CommOp::Kind::kReduceScatter;
    case PlannedOp::Kind::kAllGather:
      return CommOp::Kind::kAllGather;
    case PlannedOp::Kind::kReduce:
      return CommOp::Kind::kReduce;
    case PlannedOp::Kind::kBroadcast:
      return CommOp::Kind::kBroadcast;
    default:
      return CommOp::Kind::kAllReduce;
  }
}

}  // namespace

Breakdown breakdown_named(std::string_view name) {
  if (name == "rs") return Breakdown::kReduceScatters;
  if (name == "ag") return Breakdown::kAllGathers;
  if (name == "none") return Breakdown::kNeither;
  throw Error("there are rs, ag and none, not '", name, "'");
}

std::optional<CommOp::Kind> carried_out(PlannedOp::Kind planned, Breakdown only) {
  if (only == Breakdown::kWhole) return kind_of(planned);
  if (only == Breakdown::kNeither) return {};
  const bool scatters = only == Breakdown::kReduceScatters;
  if (planned == PlannedOp::Kind::kAllReduce) {
    return scatters ? CommOp::Kind::kReduceScatter : CommOp::Kind::kAllGather;
  }
  if (takes_gradients(planned) != scatters) return {};
  return kind_of(planned);
}

}  // namespace ndtrain
