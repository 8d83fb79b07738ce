#include <algorithm>
#include <limits>

#include "framework/parallel/gather_places.h"
#include "framework/parallel/schedules/schedules.h"
#include "framework/parallel/simulate.h"

namespace ndtrain {
namespace {

constexpr double kOverruns[] = {0, 0.5, 1, std::numeric_limits<double>::infinity()};
constexpr size_t kSearches = 4;  // from the best beginnings

class Best {
 public:
  explicit Best(const CostProfile& costs) : costs_(costs) {}

  // The first of equals stays. Returns the plan's step in seconds.
  double consider(CommPlan plan) {
    const double step_s = predicted_step_s(plan, costs_);
    if (step_s < best_s_) {
      best_s_ = step_s;
      plan_ = std::move(plan);
    }
    return step_s;
  }

  const CommPlan& plan() const { return plan_; }

 private:
  const CostProfile& costs_;
  CommPlan plan_;
  double best_s_ = std::numeric_limits<double>::infinity();
};

void consider_schedules(const CostProfile& costs, const ScheduleOptions& options, Best& best) {
  for (const NamedSchedule& s : schedules()) {
    if (s.make == auto_plan || (options.shard_optimizer && s.make == rb_plan)) continue;
    best.consider(make_comm_plan(s.name, costs, options));
  }
  ScheduleOptions dear = options;
  for (const int prefetch : {options.prefetch, 0}) {
    dear.prefetch = prefetch;
    for (const int layers : {1, 4}) {
      dear.bucket_layers = layers;
      dear.bucket_wait_s = 0;
      best.consider(make_comm_plan("dear", costs, dear));
    }
    dear.bucket_layers = 0;
    dear.bucket_wait_s = 0.005;
    best.consider(make_comm_plan("dear", costs, dear));
  }
}

std::vector<Buckets> bucketings(const CostProfile& costs, const ScheduleOptions& options) {
  std::vector<Buckets> all;
  const auto add = [&](Buckets buckets) {
    if (std::ranges::find(all, buckets) == all.end()) all.push_back(std::move(buckets));
  };
  add(layer_buckets(costs));
  add(front_buckets(costs, options.bucket_bytes));
  add(mg_wfbp_plan(costs, options).buckets);
  add(pieces(costs, options.partition_bytes));
  for (int64_t bytes = int64_t{64} << 10; bytes <= int64_t{32} << 20; bytes *= 2) {
    add(back_buckets(costs, bytes, bytes));
  }
  return all;
}

struct Beginning {
  Buckets buckets;
  std::vector<GatherPlace> places;
  double step_s;
};

std::vector<Beginning> beginnings(const CostProfile& costs, const ScheduleOptions& options,
                                  Best& best) {
  std::vector<Beginning> all;
  for (const Buckets& buckets : bucketings(costs, options)) {
    std::vector<std::vector<GatherPlace>> known;
    for (const double overrun : kOverruns) {
      for (const bool rest_grouped : {false, true}) {
        auto places = places_in_gaps(buckets, costs, overrun, rest_grouped);
        if (std::ranges::find(known, places) != known.end()) continue;
        known.push_back(places);
        const double step_s = best.consider(plan_with(buckets, places, options.shard_optimizer));
        all.push_back({buckets, std::move(places), step_s});
      }
    }
  }
  std::ranges::stable_sort(all, {}, &Beginning::step_s);
  return all;
}

}  // namespace

CommPlan auto_plan(const CostProfile& costs, const ScheduleOptions& options) {
  Best best(costs);
  consider_schedules(costs, options, best);
  std::vector<Beginning> from = beginnings(costs, options, best);
  from.resize(std::min(from.size(), kSearches));
  for (Beginning& b : from) {
    const auto places =
        better_places(b.buckets, std::move(b.places), costs, options.shard_optimizer,
                      options.evaluations / static_cast<int>(kSearches));
    best.consider(plan_with(b.buckets, places, options.shard_optimizer));
  }
  return best.plan();
}

}  // namespace ndtrain
