#include "tuner/plan/job_forecast.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "framework/core/json.h"
#include "tuner/plan/timeline.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr double kNoLimit = 1e15;  // bytes/s

bool costs_the_same(const JobSpec& a, const JobSpec& b) {
  const auto key = [](const JobSpec& s) {
    return std::tie(s.kind, s.model, s.mode, s.head, s.freeze, s.cut, s.feature_dtype, s.precision,
                    s.deterministic, s.views, s.trainer.batch, s.trainer.compute, s.tuners);
  };
  return key(a) == key(b);
}

// Machines that are what they were: seconds of one core are wall time.
PlanInputs played(const JobSpec& spec, double photos, const CutCost& cut) {
  PlanInputs in;
  in.costs.cuts = {cut};
  in.photos = photos;
  in.val_split = spec.val_split;
  in.epochs = static_cast<double>(spec.trainer.epochs);
  in.all_runs = spec.all_runs;
  in.bandwidth = kNoLimit;
  return in;
}

void put_links(const ForecastSetting& setting, PlanInputs& in) {
  if (setting.fastest_link > 0) in.bandwidth = setting.fastest_link;
  in.store_bandwidth = setting.slowest_link;
}

struct Work {
  double runs_s = 0, finish_s = 0;
};

Work work_in(const Json& report) {
  Work work;
  for (const Json& w : report.value("work", Json::array())) {
    const double seconds = w["to_s"].get<double>() - w["from_s"].get<double>();
    const auto what = w["what"].get<std::string>();
    if (what.starts_with("run ")) work.runs_s += seconds;
    if (what == "finish") work.finish_s += seconds;
  }
  return work;
}

// What its photos cost there; absent: its report says too little, as where most features were kept.
std::optional<PlanInputs> costs_in(const JobRecord& job, const ForecastSetting& setting) {
  const Json result = parse_json(job.result);
  if (!result.contains("report") || !result.contains("train_photos")) return {};
  const Json& report = result["report"];
  const auto photos = report.value("photos", 0.0), trained = result["train_photos"].get<double>();
  double made = 0, busy = 0;
  std::vector<double> photos_made;
  const Json stores = report.value("stores", Json::object());
  for (const Json& s : stores) {
    photos_made.push_back(s.value("photos", 0.0));
    made += photos_made.back();
    busy += s.value("busy_s", 0.0);
  }
  if (made == 0 || 2 * made < photos || trained == 0) return {};
  const Work work = work_in(report);
  const double runs = job.spec.runs;
  const double seen = trained * (job.spec.all_runs ? (runs + 1) / 2 : 1);  // by an epoch of each
  const double epochs = result.value("epochs", runs * static_cast<double>(job.spec.trainer.epochs));
  PlanInputs in = played(job.spec, photos,
                         {.name = job.spec.cut,
                          .feature_bytes = std::max(1.0, report.value("row_bytes", 0.0) / made),
                          .extract_s = busy / made,
                          .train_s = work.runs_s / (seen * epochs / runs)});
  put_links(setting, in);
  in.costs.finish_s = work.finish_s;
  in.kept[job.spec.cut] = photos - made;
  // What the rest of its time went to comes before the first row.
  const auto took_part = static_cast<int>(stores.size());
  in.shares = shares_by_photos(photos_made, took_part);
  const Timeline rest =
      simulate(in, in.costs.cuts[0], JobMode::kNdpipe, took_part, static_cast<int>(runs));
  in.costs.setup_s = std::max(0.0, report.value("overall_s", 0.0) - rest.makespan_s);
  return in;
}

// How many of the stores take part, and what comes of it.
std::pair<size_t, Timeline> by_fewest(const PlanInputs& in, const JobSpec& spec,
                                      const StoreCover& cover) {
  const auto all = static_cast<int>(cover.stores.size());
  std::vector<std::pair<size_t, Timeline>> each;
  for (const int n : spec.stores.all() ? counts_of(cover) : std::vector{all}) {
    each.emplace_back(n, simulate(in, in.costs.cuts[0], spec.mode, n, static_cast<int>(spec.runs)));
  }
  const auto seconds = [](const auto& e) { return e.second.makespan_s; };
  const double most = seconds(*std::ranges::min_element(each, {}, seconds)) * (1 + kWorthAStore);
  return *std::ranges::find_if(each, [&](const auto& e) { return seconds(e) <= most; });
}

}  // namespace

std::optional<Forecast> forecast(const JobSpec& spec, const ForecastSetting& setting,
                                 const std::map<uint64_t, JobRecord>& jobs) {
  if (spec.kind != JobKind::kFinetune || spec.mode != JobMode::kNdpipe) return {};
  if (setting.photos < 1 || setting.stores.stores.empty()) return {};
  for (auto it = jobs.rbegin(); it != jobs.rend(); ++it) {
    const JobRecord& job = it->second;
    if (job.state != JobState::kDone || !job.readable || !costs_the_same(job.spec, spec)) continue;
    const std::optional<PlanInputs> then = costs_in(job, setting);
    if (!then) continue;
    PlanInputs in = played(spec, setting.photos, then->costs.cuts[0]);
    in.costs = then->costs;
    in.kept[spec.cut] = setting.kept;
    in.shares =
        shares_by_photos(setting.stores.photos, static_cast<int>(setting.stores.stores.size()));
    put_links(setting, in);
    const auto [stores, time] = by_fewest(in, spec, setting.stores);
    Forecast f{.by = it->first};
    f.stores.assign(setting.stores.stores.begin(),
                    setting.stores.stores.begin() + static_cast<std::ptrdiff_t>(stores));
    std::ranges::sort(f.stores);
    f.stages = stages_of(time, setting.photos);
    return f;
  }
  return {};
}

}  // namespace ndtrain::tuner
