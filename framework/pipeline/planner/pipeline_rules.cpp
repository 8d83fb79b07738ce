#include "framework/pipeline/planner/pipeline_rules.h"

#include <algorithm>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

constexpr std::string_view kAsync = "async", kTwoVersions = "2bw", kOneByOne = "1f1b",
                           kAllForward = "gpipe", kAny = "auto";

}  // namespace

int PipelineRule::versions(int behind) const {
  if (behind == 0) return 1;
  if (schedule == kAsync) return behind + 1;
  return schedule == kTwoVersions ? 2 : 1;
}

double PipelineRule::in_flight(int behind) const {
  if (schedule == kAsync) return behind + 1;
  if (schedule == kAllForward) return 1;
  const auto parts = static_cast<double>(micro_batches);
  return std::min(parts, behind + 1.0) / parts;
}

double PipelineRule::seconds(double slowest_s, int stages) const {
  if (schedule == kAsync) return slowest_s;
  const auto parts = static_cast<double>(micro_batches);
  if (schedule == kTwoVersions) return slowest_s * std::max(1.0, stages / parts);
  return slowest_s * (parts + stages - 1) / parts;
}

std::vector<PipelineRule> pipeline_rules(std::string_view schedule, int64_t most) {
  std::vector<PipelineRule> rules;
  if (schedule == kAsync || schedule == kAny) rules.push_back({std::string(kAsync)});
  for (const std::string_view name : {kTwoVersions, kOneByOne, kAllForward}) {
    if (schedule != name && (schedule != kAny || name == kAllForward)) continue;
    for (int64_t n = 1; n <= most; n *= 2) rules.push_back({std::string(name), n});
  }
  if (rules.empty()) {
    throw Error("plan: there is no schedule '", schedule, "'; there are ", kAny, ", ", kAsync, ", ",
                kTwoVersions, ", ", kOneByOne, ", ", kAllForward);
  }
  return rules;
}

}  // namespace ndtrain
