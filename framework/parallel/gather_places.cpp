#include "framework/parallel/gather_places.h"

#include <algorithm>
#include <set>

#include "framework/parallel/simulate.h"

namespace ndtrain {
namespace {

constexpr double kWorthIt = 1e-9;  // of a step: less is rounding

// The places to try for bucket b: its own, the next one in front, and twice as far each time.
std::vector<GatherPlace> places_for(int b) {
  std::vector<GatherPlace> places = {{.behind = b}};
  for (int distance = 1; distance / 2 < b; distance *= 2) {
    const int behind = std::max(0, b - distance);
    places.push_back({.behind = behind});
    places.push_back({.behind = behind, .grouped = true});
  }
  return places;
}

}  // namespace

CommPlan plan_with(const Buckets& buckets, const std::vector<GatherPlace>& places,
                   bool shard_optimizer) {
  using Kind = PlannedOp::Kind;
  struct Behind {
    std::vector<int> grouped, alone;
  };
  std::vector<Behind> behind(buckets.size());
  for (size_t b = 0; b < buckets.size(); ++b) {
    Behind& at = behind[static_cast<size_t>(places[b].behind)];
    (places[b].grouped ? at.grouped : at.alone).push_back(static_cast<int>(b));
  }
  CommPlan plan{.buckets = buckets, .shard_optimizer = shard_optimizer};
  for (size_t b = buckets.size(); b-- > 0;) {
    plan.ops.push_back({Kind::kReduceScatter, static_cast<int>(b)});
    for (const int g : behind[b].grouped) plan.ops.push_back({Kind::kAllGather, g, true});
    for (const int g : behind[b].alone) plan.ops.push_back({Kind::kAllGather, g});
  }
  return plan;
}

std::vector<GatherPlace> places_in_gaps(const Buckets& buckets, const CostProfile& costs,
                                        double overrun, bool rest_grouped) {
  std::vector<GatherPlace> places(buckets.size(), {.behind = 0, .grouped = rest_grouped});
  places[0].grouped = false;
  const std::vector<LayerSpan> layers = layers_of(buckets, costs);
  std::set<size_t> reduced;  // and not yet gathered
  double link_free = 0, ready = 0;
  size_t layer = costs.layers.size();
  for (size_t b = buckets.size(); b-- > 0;) {
    while (layer > layers[b].front) ready += costs.layers[--layer].backward_s;
    for (auto at = reduced.begin(); at != reduced.end() && link_free < ready;) {
      const double seconds = costs.all_gather.seconds(buckets[*at].size());
      if (link_free + seconds > ready + overrun * seconds) {
        ++at;
        continue;
      }
      places[*at] = {.behind = static_cast<int>(b + 1)};
      link_free += seconds;
      at = reduced.erase(at);
    }
    link_free = std::max(link_free, ready) + costs.reduce_scatter.seconds(buckets[b].size());
    reduced.insert(b);
  }
  return places;
}

std::vector<GatherPlace> better_places(const Buckets& buckets, std::vector<GatherPlace> places,
                                       const CostProfile& costs, bool shard_optimizer,
                                       int evaluations) {
  const auto step_s = [&] {
    --evaluations;
    return predicted_step_s(plan_with(buckets, places, shard_optimizer), costs);
  };
  double best = step_s();
  for (bool moved = true; moved && evaluations > 0;) {
    moved = false;
    for (size_t b = buckets.size(); b-- > 1;) {
      GatherPlace best_place = places[b];
      for (const GatherPlace& place : places_for(static_cast<int>(b))) {
        if (evaluations <= 0) break;
        places[b] = place;
        const double now = step_s();
        if (now >= best * (1 - kWorthIt)) continue;
        best = now;
        best_place = place;
        moved = true;
      }
      places[b] = best_place;
    }
  }
  return places;
}

}  // namespace ndtrain
