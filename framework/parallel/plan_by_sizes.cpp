#include "framework/parallel/plan_by_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "framework/core/error.h"
#include "framework/parallel/schedules/schedules.h"

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

void check_goes_by_sizes(std::string_view schedule) {
  constexpr std::array<std::string_view, 5> kBySizes = {"blocking", "wfbp", "ddp", "rb", "dear"};
  if (std::ranges::count(kBySizes, schedule) > 0) return;
  const std::string names = fmt::format("{}", fmt::join(kBySizes, ", "));
  if (std::ranges::count(schedules(), schedule, &NamedSchedule::name) > 0) {
    throw Error(schedule,
                " goes by measured times, which there are none of here; by sizes alone go ", names);
  }
  throw Error("there is no such schedule; there are ", names);
}

CommPlan plan_by_sizes(std::string_view schedule, const ParameterSpace& parameters, int ranks) {
  check_goes_by_sizes(schedule);
  return make_comm_plan(schedule, sizes_of(parameters, ranks));
}

}  // namespace ndtrain
