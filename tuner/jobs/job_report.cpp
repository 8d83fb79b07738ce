#include "tuner/jobs/job_report.h"

#include <algorithm>

#include "framework/core/chrome_trace.h"
#include "framework/core/json.h"

namespace ndtrain::tuner {

void JobReport::photos(uint64_t photos, uint64_t durable) {
  counts_.photos = photos;
  counts_.durable = durable;
}

void JobReport::rows(Time now, const std::string& store, uint32_t run, uint64_t bytes) {
  const auto [it, first] = extractions_.try_emplace({store, run});
  if (first) it->second.first = now;
  it->second.last = now;
  it->second.bytes += bytes;
  counts_.row_bytes += bytes;
}

std::map<std::string, uint64_t> JobReport::row_bytes_of_stores() const {
  std::map<std::string, uint64_t> bytes;
  for (const auto& [key, e] : extractions_) bytes[key.first] += e.bytes;
  return bytes;
}

void JobReport::run_done(const std::string& store, const wire::RunDone& done) {
  Extraction& e = extractions_[{store, done.run()}];
  e.done = true;
  e.photos = done.photos();
  e.busy = done.seconds();
  if (done.has_joules()) e.joules = done.joules();
  for (const wire::Stage& s : done.stages()) e.stages[s.name()] = s.seconds();
  e.made_from = {done.made_from().begin(), done.made_from().end()};
}

std::map<uint32_t, double> JobReport::network_seconds() const {
  std::map<uint32_t, double> seconds;
  for (const auto& [key, e] : extractions_) {
    if (!e.done) continue;
    const double came = std::chrono::duration<double>(e.last - e.first).count();
    double& slowest = seconds[key.second];
    slowest = std::max(slowest, came - e.busy);
  }
  return seconds;
}

JobReport::Counts JobReport::counts() const {
  Counts counts = counts_;
  for (const auto& [run, seconds] : network_seconds()) counts.network_s += seconds;
  return counts;
}

void JobReport::complete(Time now, uint32_t run) { complete_.emplace(run, now); }

void JobReport::work(const std::string& what, Time from, Time to, std::optional<double> joules) {
  work_.push_back({"tuner", what, from, to, joules});
  spend(joules);
}

namespace {

// A photo per joule is a photo per second and watt.
void add_energy(Json& to, const std::string& whose, std::optional<double> joules, uint64_t photos) {
  if (!joules) return;
  to[whose + "joules"] = *joules;
  if (*joules > 0) to[whose + "photos_per_joule"] = static_cast<double>(photos) / *joules;
}

}  // namespace

Json JobReport::runs() const {
  Json runs = Json::array();
  const std::map<uint32_t, double> network = network_seconds();
  for (const auto& [run, t] : complete_) {
    uint64_t bytes = 0;
    for (const auto& [key, e] : extractions_) bytes += key.second == run ? e.bytes : 0;
    runs.push_back({{"run", run}, {"complete_s", at(t)}, {"row_bytes", bytes}});
    const auto n = network.find(run);
    if (n != network.end()) runs.back()["network_s"] = n->second;
  }
  return runs;
}

std::string JobReport::json() const {
  std::map<std::string, Extraction> stores;
  Time last_row = begun_;
  for (const auto& [key, e] : extractions_) {
    Extraction& all = stores[key.first];
    all.photos += e.photos;
    all.bytes += e.bytes;
    all.busy += e.busy;
    if (e.joules) all.joules = all.joules.value_or(0) + *e.joules;
    for (const auto& [name, s] : e.stages) all.stages[name] += s;
    for (const auto& [what, rows] : e.made_from) all.made_from[what] += rows;
    last_row = std::max(last_row, e.last);
  }
  for (const auto& [name, seconds] : surveys_) stores[name].survey = seconds;
  double slowest = 0, slowest_survey = 0, working = 0;
  uint64_t photos = 0;
  std::map<std::string, uint64_t> made_from;
  Json by_store = Json::object();
  for (const auto& [name, e] : stores) {
    slowest = std::max(slowest, e.busy);
    slowest_survey = std::max(slowest_survey, e.survey);
    photos += e.photos;
    for (const auto& [what, rows] : e.made_from) made_from[what] += rows;
    by_store[name] = {{"photos", e.photos}, {"row_bytes", e.bytes}, {"survey_s", e.survey},
                      {"busy_s", e.busy},   {"stages_s", e.stages}, {"made_from", e.made_from}};
    add_energy(by_store[name], "", e.joules, e.photos);
  }
  Json work = Json::array();
  for (const Span& s : work_) {
    working += std::chrono::duration<double>(s.to - s.from).count();
    work.push_back({{"what", s.what}, {"from_s", at(s.from)}, {"to_s", at(s.to)}});
    if (s.joules) work.back()["joules"] = *s.joules;
  }
  const double overall = at(ended_);
  Json json = {{"photos", counts_.photos},
               {"overall_s", overall},
               {"survey_s", slowest_survey},
               {"feature_extraction_s", slowest},
               {"feature_extraction_photos_per_s",
                slowest > 0 ? static_cast<double>(photos) / slowest : 0.0},
               {"last_row_s", at(last_row)},
               {"tuner_busy_s", working},
               {"tuner_waiting_s", std::max(0.0, overall - working)},
               {"made_from", made_from},
               {"network_s", counts().network_s},
               {"row_bytes", counts_.row_bytes},
               {"model_bytes", counts_.model_bytes},
               {"stores", by_store},
               {"complete", runs()},
               {"work", work}};
  add_energy(json, "tuner_", joules_, counts_.photos);
  return json_text(json);
}

std::string JobReport::trace() const {
  constexpr const char* kJob = "job";
  ChromeTrace trace;
  trace.row(kJob, "tuner");
  const auto add = [&](const std::string& who, const std::string& what, Time from, Time to) {
    trace.span(kJob, who, what, at(from), std::chrono::duration<double>(to - from).count());
  };
  for (const Span& s : work_) add(s.who, s.what, s.from, s.to);
  for (const auto& [key, e] : extractions_) {
    const auto busy = std::chrono::duration_cast<Time>(std::chrono::duration<double>(e.busy));
    add(key.first, "rows of run " + std::to_string(key.second),
        std::max(begun_, std::min(e.first, e.last - busy)), e.last);
  }
  return trace.json();
}

}  // namespace ndtrain::tuner
