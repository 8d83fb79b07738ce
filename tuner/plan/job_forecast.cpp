#include "tuner/plan/job_forecast.h"

#include <algorithm>
#include <ranges>
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

// Of these stores, in their order.
void put_links(const std::map<std::string, double>& known, const std::vector<std::string>& stores,
               PlanInputs& in) {
  in.links.clear();
  if (known.empty()) return;
  const auto [slowest, fastest] = std::ranges::minmax(known | std::views::values);
  in.bandwidth = fastest;
  for (const std::string& name : stores) {
    const auto link = known.find(name);
    in.links.push_back(link == known.end() ? slowest : link->second);
  }
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

// What its photos cost there, and how fast its stores were beside their mean.
struct Costs {
  PlanInputs in;
  std::map<std::string, double> speeds;
};

// By store; one that has made nothing has none.
std::map<std::string, double> speeds_in(const Json& stores, double mean_s) {
  std::map<std::string, double> speeds;
  for (const auto& [name, s] : stores.items()) {
    const double photos = s.value("photos", 0.0), busy = s.value("busy_s", 0.0);
    if (photos > 0 && busy > 0) speeds[name] = mean_s * photos / busy;
  }
  return speeds;
}

// One that is not known is as fast as their mean.
std::vector<double> speeds_of(const std::vector<std::string>& stores,
                              const std::map<std::string, double>& known) {
  std::vector<double> speeds;
  for (const std::string& name : stores) {
    const auto speed = known.find(name);
    speeds.push_back(speed == known.end() ? 1 : speed->second);
  }
  return speeds;
}

// Absent: its report says too little, as where most features were kept.
std::optional<Costs> costs_in(const JobRecord& job, const ForecastSetting& setting) {
  const Json result = parse_json(job.result);
  if (!result.contains("report") || !result.contains("train_photos")) return {};
  const Json& report = result["report"];
  const auto photos = report.value("photos", 0.0), trained = result["train_photos"].get<double>();
  double made = 0, busy = 0;
  std::vector<double> photos_made;
  std::vector<std::string> names;
  const Json stores = report.value("stores", Json::object());
  for (const auto& [name, s] : stores.items()) {
    names.push_back(name);
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
  put_links(setting.links, names, in);
  in.costs.finish_s = work.finish_s;
  in.kept[job.spec.cut] = photos - made;
  // What the rest of its time went to comes before the first row.
  const auto took_part = static_cast<int>(stores.size());
  in.shares = shares_by_photos(photos_made, took_part);
  Costs costs{.in = {}, .speeds = speeds_in(stores, busy / made)};
  in.speeds = speeds_of(names, costs.speeds);
  const Timeline rest =
      simulate(in, in.costs.cuts[0], JobMode::kNdpipe, took_part, static_cast<int>(runs));
  in.costs.setup_s = std::max(0.0, report.value("overall_s", 0.0) - rest.makespan_s);
  costs.in = std::move(in);
  return costs;
}

void put_stores(const StoreCover& cover, const std::map<std::string, double>& speeds,
                PlanInputs& in) {
  in.held = shares_by_photos(cover.photos, static_cast<int>(cover.stores.size()));
  in.speeds = speeds_of(cover.stores, speeds);
  if (cover.distinct > 0) in.photos = std::min(in.photos, cover.distinct);
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

std::vector<double> measured_speeds(const std::vector<std::string>& stores,
                                    const std::map<uint64_t, JobRecord>& jobs) {
  for (auto it = jobs.rbegin(); it != jobs.rend(); ++it) {
    const JobRecord& job = it->second;
    if (job.state != JobState::kDone || !job.readable || job.spec.kind != JobKind::kFinetune ||
        job.spec.mode != JobMode::kNdpipe) {
      continue;
    }
    const auto costs = costs_in(job, {});
    if (costs && std::ranges::any_of(stores, [&](const std::string& name) {
          return costs->speeds.contains(name);
        })) {
      return speeds_of(stores, costs->speeds);
    }
  }
  return {};
}

std::optional<Forecast> forecast(const JobSpec& spec, const ForecastSetting& setting,
                                 const std::map<uint64_t, JobRecord>& jobs) {
  if (spec.kind != JobKind::kFinetune || spec.mode != JobMode::kNdpipe) return {};
  if (setting.photos < 1 || setting.stores.stores.empty()) return {};
  for (auto it = jobs.rbegin(); it != jobs.rend(); ++it) {
    const JobRecord& job = it->second;
    if (job.state != JobState::kDone || !job.readable || !costs_the_same(job.spec, spec)) continue;
    const std::optional<Costs> then = costs_in(job, setting);
    if (!then) continue;
    PlanInputs in = played(spec, setting.photos, then->in.costs.cuts[0]);
    in.costs = then->in.costs;
    in.kept[spec.cut] = setting.kept;
    put_stores(setting.stores, then->speeds, in);
    put_links(setting.links, setting.stores.stores, in);
    const auto [stores, time] = by_fewest(in, spec, setting.stores);
    Forecast f{.by = it->first};
    f.stores.assign(setting.stores.stores.begin(),
                    setting.stores.stores.begin() + static_cast<std::ptrdiff_t>(stores));
    std::ranges::sort(f.stores);
    f.stages = stages_of(time, in.photos);
    return f;
  }
  return {};
}

}  // namespace ndtrain::tuner
