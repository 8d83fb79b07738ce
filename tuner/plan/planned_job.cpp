#include "tuner/plan/planned_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "tuner/plan/planner.h"

namespace ndtrain::tuner {

namespace {

// What is as fast by the fewest stores.
Prediction by_fewer(std::vector<Prediction> all, const Prediction& fastest) {
  std::erase_if(all, [&](const Prediction& p) {
    return p.mode == JobMode::kIdeal || !p.fits || p.stores > fastest.stores ||
           p.time.makespan_s > fastest.time.makespan_s * (1 + kWorthAStore);
  });
  return *std::ranges::min_element(
      all, {}, [](const Prediction& p) { return std::tuple(p.stores, p.time.makespan_s); });
}

// Those that a job of so many stores is for, where that is not all.
void choose_stores(JobSpec& spec, const StoreCover& cover, size_t chosen) {
  const size_t all = cover.stores.size();
  if (chosen >= all) return;
  spec.stores.names.assign(cover.stores.begin(),
                           cover.stores.begin() + static_cast<std::ptrdiff_t>(chosen));
  std::ranges::sort(spec.stores.names);
  spec.why += fmt::format(
      "; {} of {} stores, which have all of the photos: with more of them it is "
      "done at most {:.0f} % sooner",
      chosen, all, 100 * kWorthAStore);
}

// The first of them; none where there are not so many.
std::vector<double> of_first(const std::vector<double>& of_each, int most) {
  if (std::ssize(of_each) < most) return {};
  return {of_each.begin(), of_each.begin() + most};
}

}  // namespace

void take_stores(const StoreCover& cover, int most, PlanInputs& in) {
  in.held = shares_by_photos(cover.photos, most);
  in.speeds = of_first(cover.speeds, most);
  in.links = of_first(in.links, most);
}

JobSpec planned(JobSpec spec, PlanInputs in, const StoreCover& cover) {
  if (in.costs.cuts.empty()) throw Error("plan: there are no cuts");
  const std::string last = in.costs.cuts.back().name;
  if (spec.promote == Promote::kRule) in.costs.cuts = {in.costs.cuts.back()};
  const bool choose = spec.stores.all() && !cover.stores.empty() && spec.mode != JobMode::kIdeal;
  if (choose) in.stores = counts_of(cover);
  if (spec.stores.number > 0) in.stores = {static_cast<int>(spec.stores.number)};
  if (!spec.stores.names.empty()) in.stores = {static_cast<int>(spec.stores.names.size())};
  take_stores(cover, *std::ranges::max_element(in.stores), in);
  if (choose && cover.distinct > 0) in.photos = std::min(in.photos, cover.distinct);
  in.epochs = static_cast<double>(spec.trainer.epochs);
  in.val_split = spec.val_split;
  in.all_runs = spec.all_runs;
  in.views = static_cast<double>(spec.views);
  if (spec.disk > 0) in.disk = static_cast<double>(spec.disk);
  in.runs = {1, 2, 3, 4};
  const std::vector<Prediction> all = predict_all(in);
  Prediction chosen = best(all);
  if (choose) chosen = by_fewer(all, chosen);
  const bool features = chosen.mode == JobMode::kNdpipe;
  spec.mode = chosen.mode;
  spec.runs = static_cast<uint32_t>(chosen.runs);
  spec.cut = chosen.cut == last ? "" : chosen.cut;
  spec.why =
      fmt::format("the profile predicts {:.1f} s for {}{} in {} run{}: {}", chosen.time.makespan_s,
                  name_of(chosen.mode), features ? " at " + chosen.cut : "", chosen.runs,
                  chosen.runs == 1 ? "" : "s", why(chosen));
  spec.predicted = stages_of(chosen.time, in.photos);
  if (choose) choose_stores(spec, cover, static_cast<size_t>(chosen.stores));
  if (in.disk > 0) {
    spec.why += fmt::format("; on the Tuner's disk it takes {} of the {} that there are for it",
                            size_text(chosen.disk_bytes), size_text(in.disk));
  }
  return spec;
}

}  // namespace ndtrain::tuner
