// How ranks share a training: by rows, or by layers, with the flags of the latter.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "cli/args.h"
#include "framework/core/fs.h"
#include "ndp/jobs/stage_training.h"

namespace ndtrain::cli {
using namespace ndp;

// --parallel, --plan, --pipeline-schedule, --no-input-pipelining, --stages-per-rank, --replicas,
// --micro-batches, --drain-every, --recompute, --staleness. What they decide about what a training
// gives is in StagesAsked.
inline constexpr std::array<std::string_view, 10> kStageFlags = {
    "parallel", "plan",          "pipeline-schedule", "no-input-pipelining", "stages-per-rank",
    "replicas", "micro-batches", "drain-every",       "recompute",           "staleness"};
void declare_stages(ArgsSpec& args);

// Whether ranks are stages at some time.
bool by_stages(const Args& args);

// Of a run of so many ranks; without --parallel pipeline, nothing.
struct StagesAsked {
  StageConfig config;      // its micro-batches are --accumulate's parts
  int64_t from_epoch = 0;  // counted from 0; before, ranks share the rows
  // Flags and values that a training on old parameters gives something else without. None: it gives
  // what one process does.
  std::vector<std::pair<std::string, std::string>> decisive = {};
};
// Throws UsageError where flags do not go together, and for what is not there yet; Error for a plan
// that cannot be read.
std::optional<StagesAsked> stages_of(const Args& args, Fs& fs, int ranks);

}  // namespace ndtrain::cli
