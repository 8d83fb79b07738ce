// Whether all ranks apply a step.
#pragma once

#include <span>

#include "framework/parallel/step_reports.h"
#include "framework/sparse/sync/site_gradient.h"
#include "framework/train/trainer.h"

namespace ndtrain {

// What ranks tell one another of a step before anything of it is kept: whether all of them will
// apply it, and whether it is the last. One thread.
class StepVote {
 public:
  StepVote(const Trainer::Shared& shared, SiteGradient& gradient)
      : shared_(shared), gradient_(gradient) {}

  // As a GradientSync's share(), behind the end of the site's gradient. Waits, and adds how long.
  void share(StepReports& to, std::span<ShardReport> reports, double& waited_s);
  bool is_finite() const { return finite_; }  // every rank's gradient of the step

  void ask_to_stop() { stop_ = true; }
  bool is_stopped() const { return stopped_; }  // some rank has asked

 private:
  Trainer::Shared shared_;
  SiteGradient& gradient_;
  bool finite_ = true, stop_ = false, stopped_ = false;
};

}  // namespace ndtrain
