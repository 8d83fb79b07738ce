#include "tuner/service/job_plan.h"

#include <algorithm>
#include <ranges>
#include <tuple>

#include "framework/core/json.h"
#include "tuner/jobs/job_prediction.h"
#include "tuner/jobs/store_cover.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

// Whose extractors are the same where their cuts are.
bool extracts_alike(const JobSpec& a, const JobSpec& b) {
  const auto key = [](const JobSpec& s) {
    return std::tie(s.kind, s.model, s.mode, s.head, s.freeze, s.feature_dtype, s.precision,
                    s.deterministic);
  };
  return key(a) == key(b);
}

// Of those that take part, and of those that are here, which took part in earlier jobs.
std::map<std::string, double> links_of(const StoreRegistry& all,
                                       const std::vector<std::string>& stores) {
  std::map<std::string, double> links;
  for (const auto& [name, store] : all.all()) {
    const bool counts = store.here || std::ranges::count(stores, name) > 0;
    if (counts && store.link.measured != 0 && store.link.up > 0) links[name] = store.link.up;
  }
  return links;
}

std::vector<double> photos_of(const StoreRegistry& all, const std::vector<std::string>& stores) {
  std::vector<double> photos;
  for (const std::string& name : stores) {
    const auto store = all.all().find(name);
    photos.push_back(store == all.all().end() ? 0 : static_cast<double>(store->second.photos));
  }
  return photos;
}

Json to_json(const Forecast& forecast) {
  Json json = forecast.stages;
  json["by"] = "job " + std::to_string(forecast.by);
  return json;
}

}  // namespace

JobPlan JobPlans::of(const JobSpec& spec, const StoreChoice& choice) const {
  JobPlan plan{.stores = cover(choice), .kept = kept(spec)};
  for (const std::string& name : choice.take) {
    plan.photos += ports_.stores.all().at(name).photos;
  }
  plan.forecast = forecast_of(spec, plan);
  return plan;
}

// A job that waits for others may need those for what nobody else has.
StoreCover JobPlans::cover(const StoreChoice& choice) const {
  std::vector<HeldPhotos> held;
  uint64_t claims = 0;
  for (const std::string& name : choice.take) {
    const uint64_t photos = ports_.holders.number_of(name);
    claims += photos;
    held.push_back({.store = name, .known = photos == ports_.stores.all().at(name).photos});
  }
  std::vector<std::vector<Digest>> photos;  // read from the disk where they are few
  for (size_t s = 0; s < held.size() && claims <= kMostCompared; ++s) {
    Result<std::vector<Digest>> read = ports_.holders.photos_of(held[s].store);
    held[s].known = held[s].known && read.ok();
    photos.push_back(read.ok() ? std::move(*read) : std::vector<Digest>());
    held[s].photos = photos[s];
  }
  StoreCover cover = claims <= kMostCompared ? greedy_cover(held) : uncompared(held);
  if (!choice.waits_for.empty() || choice.strangers > 0) cover.enough = cover.stores.size();
  cover.photos = photos_of(ports_.stores, cover.stores);
  cover.speeds = measured_speeds(cover.stores, ports_.records.all());
  return cover;
}

std::map<std::string, int64_t> JobPlans::kept(const JobSpec& spec) const {
  std::map<std::string, int64_t> kept;
  if (!ports_.kept || spec.mode != JobMode::kNdpipe) return kept;
  for (const PublishedModel& version : ports_.versions.all()) {
    const auto job = ports_.records.all().find(version.job);
    if (job == ports_.records.all().end() || !extracts_alike(job->second.spec, spec)) continue;
    const int64_t photos = ports_.kept(version.extractor, spec.deterministic, spec.view_rule());
    if (photos > 0) kept[job->second.spec.cut] = photos;
  }
  return kept;
}

Json JobPlans::forecast_of(const JobSpec& spec, const JobPlan& plan) const {
  ForecastSetting setting{.photos = static_cast<double>(plan.photos),
                          .stores = plan.stores,
                          .links = links_of(ports_.stores, plan.stores.stores)};
  const auto kept = plan.kept.find(spec.cut);
  if (kept != plan.kept.end()) setting.kept = static_cast<double>(kept->second);
  const std::map<uint64_t, JobRecord>& jobs = ports_.records.all();
  if (const auto f = forecast(spec, setting, jobs)) {
    Json json = to_json(*f);
    json["stores"] = f->stores;
    return json;
  }
  Json json = parse_json(prediction_of({.spec = spec}, plan.photos, jobs));
  return json.empty() ? Json() : json;
}

Json prediction_of_done(const JobRecord& job, const Json& result,
                        const std::vector<std::string>& took, const StoreRegistry& stores,
                        const std::map<uint64_t, JobRecord>& jobs) {
  const auto photos = result["report"]["photos"].get<uint64_t>();
  ForecastSetting setting{
      .photos = static_cast<double>(photos),
      .stores = {.stores = took, .enough = took.size(), .photos = photos_of(stores, took)},
      .links = links_of(stores, took),
      .kept = result.value("features_of_earlier_jobs", 0.0)};
  if (job.spec.predicted.empty()) {
    if (const auto f = forecast(job.spec, setting, jobs)) return to_json(*f);
  }
  return parse_json(prediction_of(job, photos, jobs));
}

}  // namespace ndtrain::tuner
