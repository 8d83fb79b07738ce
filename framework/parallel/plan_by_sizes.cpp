#include "framework/parallel/plan_by_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "framework/core/error.h"

namespace ndtrain {

CostProfile sizes_of(const ParameterSpace& parameters, int ranks) {
  CostProfile costs{.source = "sizes alone", .ranks = ranks};
  int64_t end = parameters.size();
  for (size_t i = parameters.slots().size(); i-- > 0;) {
    const int64_t begin = parameters.slots()[i].range.begin;
    costs.layers.push_back({.elements = end - begin});
    end = begin;
  }
  return costs;
}

bool goes_by_sizes(std::string_view schedule) {
  constexpr std::array<std::string_view, 5> kBySizes = {"blocking", "wfbp", "ddp", "rb", "dear"};
  if (std::ranges::count(kBySizes, schedule) > 0) return true;
  std::vector<std::string_view> names;
  for (const NamedSchedule& s : schedules()) names.push_back(s.name);
  if (std::ranges::count(names, schedule) > 0) return false;
  throw Error("there is no such schedule; there are ", fmt::format("{}", fmt::join(names, ", ")));
}

CommPlan plan_by_sizes(std::string_view schedule, const ParameterSpace& parameters, int ranks,
                       const ScheduleOptions& options) {
  if (!goes_by_sizes(schedule)) {
    throw Error(schedule, " goes by measured times, which there are none of here");
  }
  return make_comm_plan(schedule, sizes_of(parameters, ranks), options);
}

CommPlan first_plan(std::string_view schedule, const ParameterSpace& parameters, int ranks,
                    const ScheduleOptions& options) {
  return plan_by_sizes(followed(schedule, false), parameters, ranks, options);
}

std::string_view followed(std::string_view schedule, bool costs) {
  return costs || goes_by_sizes(schedule) ? schedule : "ddp";
}

}  // namespace ndtrain
