#include "tuner/jobs/job_conflict.h"

#include <algorithm>

namespace ndtrain::tuner {

namespace {

bool trains(const JobSpec& job) { return job.kind == JobKind::kFinetune; }
bool wants_features(const JobSpec& job) { return trains(job) || job.kind == JobKind::kRefine; }

bool may_change_what_is_in_force(const JobSpec& job) {
  return trains(job) && job.publish && job.promote != Promote::kNever;
}

// A number or `all` may be any.
bool may_share_a_store(const JobSpec& a, const JobSpec& b) {
  if (a.collection != b.collection) return false;
  const auto& named = a.stores.names;
  if (named.empty() || b.stores.names.empty()) return true;
  return std::ranges::any_of(named, [&](const std::string& s) { return b.stores.includes(s); });
}

// A relabelling says in the label database which version labels its task.
bool label_by_other_versions(const JobSpec& a, const JobSpec& b) {
  const bool both = a.kind == JobKind::kRelabel && b.kind == JobKind::kRelabel;
  return both && a.task == b.task && a.model != b.model;
}

}  // namespace

std::string conflict(const JobSpec& earlier, const JobSpec& later) {
  if (trains(earlier) && trains(later)) return "both train, and a Tuner trains one at a time";
  if (may_change_what_is_in_force(earlier) && later.model.empty() && earlier.task == later.task) {
    return "it may put another version of the task " + later.task + " in force";
  }
  if (may_share_a_store(earlier, later)) {
    if (wants_features(earlier) && wants_features(later)) {
      return "both want features of the same stores";
    }
    if (!wants_features(earlier) && !wants_features(later)) {
      return "both label photos of the same stores";
    }
  }
  if (label_by_other_versions(earlier, later)) {
    return "both label for the task " + later.task + ", by other versions";
  }
  return "";
}

}  // namespace ndtrain::tuner
