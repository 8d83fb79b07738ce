#include <algorithm>
#include <limits>
#include <queue>

#include "framework/core/error.h"
#include "framework/parallel/buckets.h"
#include "framework/parallel/schedules/schedules.h"

namespace ndtrain {
namespace {

// Pieces that are ready wait in order of priority until there is credit for them; what was handed
// to the link is carried first come, first served.
class CreditQueue {
 public:
  CreditQueue(const CostProfile& costs, const Buckets& buckets, int64_t credit_bytes)
      : costs_(costs), buckets_(buckets), credit_(credit_bytes / CostProfile::kElementBytes) {
    double now = 0;
    std::vector<double> gradient_at(costs.layers.size());
    for (size_t l = gradient_at.size(); l-- > 0;) {
      now += costs.layers[l].backward_s;
      gradient_at[l] = now;
    }
    for (const LayerSpan& of : layers_of(buckets, costs))
      ready_at_.push_back(gradient_at[of.front]);
  }

  std::vector<size_t> order() {
    size_t arriving = buckets_.size();  // the buckets in front of it are not ready
    double now = 0;
    while (order_.size() < buckets_.size()) {
      while (arriving > 0 && ready_at_[arriving - 1] <= now) waiting_.push(--arriving);
      hand_out(now);
      const double next_ready = arriving > 0 ? ready_at_[arriving - 1] : kNever;
      const double next_end = in_flight_.empty() ? kNever : in_flight_.front().end_s;
      now = std::min(next_ready, next_end);
      if (next_end <= next_ready) {
        credit_ += buckets_[in_flight_.front().bucket].size();
        in_flight_.pop();
      }
    }
    return order_;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  void hand_out(double now) {
    // A piece that is larger than all credit goes alone.
    while (!waiting_.empty() &&
           (in_flight_.empty() || buckets_[waiting_.top()].size() <= credit_)) {
      const size_t bucket = waiting_.top();
      waiting_.pop();
      credit_ -= buckets_[bucket].size();
      link_free_ = std::max(link_free_, now) + costs_.all_reduce.seconds(buckets_[bucket].size());
      in_flight_.push({bucket, link_free_});
      order_.push_back(bucket);
    }
  }

  struct InFlight {
    size_t bucket;
    double end_s;
  };
  const CostProfile& costs_;
  const Buckets& buckets_;
  std::vector<double> ready_at_;  // of buckets
  int64_t credit_;                // elements
  double link_free_ = 0;
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> waiting_;  // the front one first
  std::queue<InFlight> in_flight_;
  std::vector<size_t> order_;
};

}  // namespace

CommPlan bytescheduler_plan(const CostProfile& costs, const ScheduleOptions& options) {
  if (options.credit_bytes < 1)
    throw Error("bytescheduler: credit of ", options.credit_bytes, " bytes");
  CommPlan plan{.buckets = pieces(costs, options.partition_bytes)};
  for (const size_t b : CreditQueue(costs, plan.buckets, options.credit_bytes).order()) {
    plan.ops.push_back({PlannedOp::Kind::kAllReduce, static_cast<int>(b)});
  }
  return plan;
}

}  // namespace ndtrain
