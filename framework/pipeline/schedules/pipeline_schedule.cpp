#include "framework/pipeline/schedules/pipeline_schedule.h"

#include <algorithm>
#include <array>
#include <string>

#include "framework/core/error.h"
#include "framework/pipeline/schedules/schedules.h"

namespace ndtrain {
namespace {

constexpr std::array<std::string_view, 7> kScheduleNames = {"gpipe", "1f1b",  "interleaved", "zb",
                                                            "2bw",   "async", "sync"};
constexpr std::array kScheduleMakers = {
    gpipe_schedule,       one_forward_one_backward_schedule, interleaved_schedule,
    zero_bubble_schedule, two_buffered_weights_schedule,     asynchronous_schedule,
    sequential_schedule};
static_assert(kScheduleNames.size() == kScheduleMakers.size());

}  // namespace

std::span<const std::string_view> pipeline_schedules() { return kScheduleNames; }

std::unique_ptr<PipelineSchedule> pipeline_schedule(std::string_view name) {
  std::string names;
  for (size_t i = 0; i < kScheduleNames.size(); ++i) {
    if (kScheduleNames[i] == name) return kScheduleMakers[i]();
    names += (names.empty() ? "" : ", ") + std::string(kScheduleNames[i]);
  }
  throw Error("unknown pipeline schedule '", name, "'; there are ", names);
}

}  // namespace ndtrain
