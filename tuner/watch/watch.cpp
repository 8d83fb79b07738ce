#include "tuner/watch/watch.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "framework/core/json.h"

namespace ndtrain::tuner {
namespace {

using Due = WatchDecision::Due;

std::set<std::string> classes_of(const LabelWindow& a, const LabelWindow& b) {
  std::set<std::string> names;
  for (const LabelWindow* w : {&a, &b}) {
    for (const auto& [name, n] : w->classes) names.insert(name);
  }
  return names;
}

double share(const LabelWindow& w, const std::string& name, size_t classes) {
  const auto it = w.classes.find(name);
  const double n = it == w.classes.end() ? 0 : static_cast<double>(it->second);
  return (n + 0.5) / (static_cast<double>(w.photos) + 0.5 * static_cast<double>(classes));
}

Json to_json(const LabelWindow& w) {
  return {{"photos", w.photos}, {"classes", w.classes.size()}, {"mean_score", w.mean_score()}};
}

}  // namespace

std::string_view name_of(Due due) {
  switch (due) {
    case Due::kTraining:
      return "finetune";
    case Due::kRelabel:
      return "relabel";
    case Due::kLabelMissing:
      return "label";
    case Due::kNothing:
      break;
  }
  return "nothing";
}

void LabelWindow::add(const std::string& class_name, int64_t n, double their_scores) {
  photos += n;
  scores += their_scores;
  classes[class_name] += n;
}

double population_stability_index(const LabelWindow& later, const LabelWindow& earlier) {
  const std::set<std::string> names = classes_of(later, earlier);
  double sum = 0;
  for (const std::string& name : names) {
    const double p = share(later, name, names.size()), q = share(earlier, name, names.size());
    sum += (p - q) * std::log(p / q);
  }
  return sum;
}

double index_by_chance(const LabelWindow& later, const LabelWindow& earlier) {
  if (later.photos == 0 || earlier.photos == 0) return 0;
  constexpr double kDeviations = 3;
  const double freedom = static_cast<double>(classes_of(later, earlier).size()) - 1;
  return (1 / static_cast<double>(later.photos) + 1 / static_cast<double>(earlier.photos)) *
         (freedom + kDeviations * std::sqrt(2 * freedom));
}

WatchTimes Watch::times() const {
  const int64_t now = clock_.unix_seconds(), window = std::llround(rule_.window_s);
  return {.earlier = now - 2 * window, .later = now - window, .now = now};
}

std::string Watch::drift(const WatchObservation& s) const {
  if (std::min(s.later.photos, s.earlier.photos) < rule_.window_photos) return "";
  const double before = s.earlier.mean_score(), now = s.later.mean_score();
  if (before - now > rule_.score_drop) {
    return fmt::format("the mean top-1 score fell from {:.3f} to {:.3f}", before, now);
  }
  const double psi = population_stability_index(s.later, s.earlier);
  if (psi > std::max(rule_.psi, index_by_chance(s.later, s.earlier))) {
    return fmt::format("the classes have changed: population stability index {:.3f}", psi);
  }
  return "";
}

bool Watch::is_soon_after(int64_t submitted) const {
  return submitted != 0 &&
         static_cast<double>(clock_.unix_seconds() - submitted) < rule_.min_interval_s;
}

int64_t Watch::missing(const WatchObservation& s) const {
  return std::max<int64_t>(0, s.photos - s.labelled - hopeless_);
}

std::string Watch::many_missing(const WatchObservation& s) const {
  if (s.in_force == 0 || !rule_.counts_missing()) return "";
  const int64_t n = missing(s);
  const bool many = rule_.missing > 0 && n >= rule_.missing;
  const double share = s.photos == 0 ? 0 : static_cast<double>(n) / static_cast<double>(s.photos);
  const bool large = rule_.missing_share > 0 && n > 0 && share >= rule_.missing_share;
  if (!many && !large) return "";
  return fmt::format("{} of {} photos have no label", n, s.photos);
}

// What is missing when a relabelling has ended.
void Watch::count_hopeless(const WatchObservation& s) {
  if (!rule_.counts_missing()) return;
  const int64_t left = std::max<int64_t>(0, s.photos - s.labelled);
  if (relabels_ && !s.busy) {
    relabels_ = false;
    hopeless_ = left;
  }
  hopeless_ = std::min(hopeless_, left);
}

WatchDecision Watch::decide(const WatchObservation& s) const {
  if (s.busy) return {.why = "a job is in progress"};
  if (rule_.relabel && s.in_force != 0 && s.stale && s.in_force != relabelled_) {
    return {Due::kRelabel,
            fmt::format("version {} is in force, and there are labels by others", s.in_force)};
  }
  if (rule_.relabel && s.in_force != 0 && s.stale && !s.came_back.empty()) {
    return {Due::kRelabel,
            fmt::format("store {} is here, which the last relabelling did without", s.came_back)};
  }
  const std::string unlabelled = many_missing(s);  // what a lost store has stays so
  if (!unlabelled.empty() && !is_soon_after(s.last_relabelling)) {
    return {Due::kLabelMissing, unlabelled};
  }
  if (s.in_force == 0 && rule_.model.empty()) {
    return {.why = "no version is in force to start from, and the rule names no model"};
  }
  const std::string why =
      s.truths >= rule_.labels
          ? fmt::format("people have labelled at least {} photos since the last fine-tuning",
                        rule_.labels)
          : drift(s);
  if (why.empty() && !unlabelled.empty()) {
    return {.why = unlabelled + ", but it is too soon after the last relabelling"};
  }
  if (why.empty()) return {.why = "few new labels by people, and no drift"};
  if (is_soon_after(s.last_training)) {
    return {.why = "a fine-tuning is due, but too soon after the last one"};
  }
  return {Due::kTraining, why};
}

WatchDecision Watch::look(const WatchObservation& observation) {
  observation_ = observation;
  failure_.clear();
  looked_ = clock_.unix_seconds();
  next_ = clock_.monotonic() +
          std::chrono::duration_cast<Time>(std::chrono::duration<double>(rule_.every_s));
  count_hopeless(observation);
  decision_ = decide(observation);
  return decision_;
}

void Watch::submitted(uint64_t job) {
  submitted_ = {job, clock_.unix_seconds(), decision_};
  if (decision_.due == Due::kRelabel) relabelled_ = observation_.in_force;
  // One of what is stale alone leaves what is missing as it is.
  relabels_ = relabels_ || decision_.due == Due::kLabelMissing;
}

void Watch::failed(const std::string& why) {
  failure_ = why;
  next_ = clock_.monotonic() +
          std::chrono::duration_cast<Time>(std::chrono::duration<double>(rule_.every_s));
}

std::string Watch::json() const {
  const LabelWindow &later = observation_.later, &earlier = observation_.earlier;
  Json json = {{"looked", looked_},
               {"due", name_of(decision_.due)},
               {"why", decision_.why},
               {"failure", failure_},
               {"in_force", observation_.in_force},
               {"last_training", observation_.last_training},
               {"truths", observation_.truths},
               {"stale", observation_.stale},
               {"later", to_json(later)},
               {"earlier", to_json(earlier)},
               {"psi", population_stability_index(later, earlier)},
               {"psi_by_chance", index_by_chance(later, earlier)}};
  if (submitted_) {
    json["submitted"] = {{"job", submitted_->job},
                         {"kind", name_of(submitted_->decision.due)},
                         {"why", submitted_->decision.why},
                         {"time", submitted_->time}};
  }
  if (rule_.counts_missing()) {
    json["photos"] = observation_.photos;
    json["labelled"] = observation_.labelled;
    json["missing"] = missing(observation_);
  }
  json["rule"] = parse_json(rule_.text());
  return json_text_replacing(json);
}

}  // namespace ndtrain::tuner
