#include "framework/pipeline/planner/pipeline_rules.h"

#include <algorithm>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

constexpr std::string_view kAsync = "async", kTwoVersions = "2bw", kZeroBubble = "zb",
                           kOneByOne = "1f1b", kAllForward = "gpipe", kAny = "auto";

}  // namespace

int PipelineRule::versions(int behind) const {
  if (behind == 0) return 1;
  if (schedule == kAsync) return behind + 1;
  return schedule == kTwoVersions ? 2 : 1;
}

double PipelineRule::in_flight(int behind) const {
  if (schedule == kAllForward) return 1;
  const auto parts = static_cast<double>(micro_batches);
  if (schedule == kAsync) return behind + 1 / parts;
  // What is taken back but for its weights is held until then.
  const double most = schedule == kZeroBubble ? most_stages : behind + 1.0;
  return std::min(parts, most) / parts;
}

double PipelineRule::with_transfers(double stage_s, double transfer_s) const {
  if (schedule != kAsync) return stage_s + transfer_s;
  return std::max(stage_s + transfer_s / static_cast<double>(micro_batches), transfer_s);
}

double PipelineRule::seconds(double slowest_s, int stages) const {
  if (schedule == kAsync) return slowest_s;
  const auto parts = static_cast<double>(micro_batches);
  if (schedule == kTwoVersions) return slowest_s * std::max(1.0, stages / parts);
  double waits = stages - 1;  // micro-batches
  // (S-1)(F+B-W) where there are enough to fill in, and W is not longer than F or B.
  if (schedule == kZeroBubble && micro_batches >= stages) {
    waits *= 1 - 2 * std::min(weight_share, 1.0 / 3);
  }
  return slowest_s * (parts + waits) / parts;
}

std::vector<PipelineRule> pipeline_rules(std::string_view schedule,
                                         const PipelineRuleInput& input) {
  std::vector<PipelineRule> rules;
  for (const std::string_view name : {kAsync, kTwoVersions, kZeroBubble, kOneByOne, kAllForward}) {
    if (schedule != name && (schedule != kAny || name == kAllForward)) continue;
    for (int64_t n = 1; n <= input.most_micro_batches; n *= 2) {
      if (n < input.least_micro_batches) continue;
      rules.push_back({std::string(name), n, input.weight_share, input.most_stages});
    }
  }
  if (rules.empty()) {
    throw Error("plan: there is no schedule '", schedule, "'; there are ", kAny, ", ", kAsync, ", ",
                kTwoVersions, ", ", kZeroBubble, ", ", kOneByOne, ", ", kAllForward);
  }
  return rules;
}

}  // namespace ndtrain
