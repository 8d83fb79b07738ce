// Under which groups of a SegmentStore the rows of a job's photos are kept, each under its photo's
// digest.
#pragma once

#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "ndp/jobs/view_rule.h"

namespace ndtrain::tuner {
using namespace ndp;

class RowGroups {
 public:
  // The photo as it is, instead of a view of it, which are numbered from 0.
  static constexpr int64_t kAsItIs = -1;

  // `photos`: of photos as they are.
  RowGroups(const Digest& photos, const ViewRule& rule) : groups_{photos} {
    if (rule.views == 0) return;
    for (const Digest& view : groups_of_views(photos, rule)) groups_.push_back(view);
  }

  const std::vector<Digest>& all() const { return groups_; }
  const Digest& of(int64_t view) const { return groups_[static_cast<size_t>(view + 1)]; }
  int64_t views() const { return std::ssize(groups_) - 1; }  // 0: no photo has any

  // Of which views, from the first to before the second, a photo's row of this run has features,
  // one after the other. Photos to validate with, those of run 0, are as they are.
  std::pair<int64_t, int64_t> views_of(uint32_t run) const {
    return run == 0 || views() == 0 ? std::pair(kAsItIs, kAsItIs + 1)
                                    : std::pair(int64_t{0}, views());
  }

 private:
  std::vector<Digest> groups_;
};

}  // namespace ndtrain::tuner
