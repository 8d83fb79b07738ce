#include "framework/sparse/sync/step_vote.h"

#include "framework/core/stopwatch.h"
#include "framework/sparse/sync/whole_gradient.h"

namespace ndtrain {

void StepVote::share(StepReports& to, std::span<ShardReport> reports, double& waited_s) {
  constexpr uint8_t kNotFinite = 1, kStop = 2;  // flags of a rank
  gradient_.end(waited_s);
  const std::span<const float> sum(shared_.gradients.sums()[0],
                                   static_cast<size_t>(shared_.parameters.size()));
  const int flags = (are_finite(sum) ? 0 : kNotFinite) | (stop_ ? kStop : 0);
  const Stopwatch waits(waited_s);
  to.share(reports, static_cast<uint8_t>(flags));
  finite_ = (to.flags() & kNotFinite) == 0;
  stopped_ = stopped_ || (to.flags() & kStop) != 0;
}

}  // namespace ndtrain
