#include "tuner/plan/planned_job.h"

#include <fmt/format.h>

#include "tuner/plan/planner.h"

namespace ndtrain::tuner {

JobSpec planned(JobSpec spec, PlanInputs in) {
  if (in.costs.cuts.empty()) throw Error("plan: there are no cuts");
  const std::string last = in.costs.cuts.back().name;
  if (spec.promote == Promote::kRule) in.costs.cuts = {in.costs.cuts.back()};
  if (spec.stores.number > 0) in.stores = {static_cast<int>(spec.stores.number)};
  if (!spec.stores.names.empty()) in.stores = {static_cast<int>(spec.stores.names.size())};
  in.epochs = static_cast<double>(spec.trainer.epochs);
  in.val_split = spec.val_split;
  in.all_runs = spec.all_runs;
  if (spec.disk > 0) in.disk = static_cast<double>(spec.disk);
  in.runs = {1, 2, 3, 4};
  const Prediction chosen = best(predict_all(in));
  const bool features = chosen.mode == JobMode::kNdpipe;
  spec.mode = chosen.mode;
  spec.runs = static_cast<uint32_t>(chosen.runs);
  spec.cut = chosen.cut == last ? "" : chosen.cut;
  spec.why =
      fmt::format("the profile predicts {:.1f} s for {}{} in {} run{}: {}", chosen.time.makespan_s,
                  name_of(chosen.mode), features ? " at " + chosen.cut : "", chosen.runs,
                  chosen.runs == 1 ? "" : "s", why(chosen));
  if (in.disk > 0) {
    spec.why += fmt::format("; on the Tuner's disk it takes {} of the {} that there are for it",
                            size_text(chosen.disk_bytes), size_text(in.disk));
  }
  return spec;
}

}  // namespace ndtrain::tuner
