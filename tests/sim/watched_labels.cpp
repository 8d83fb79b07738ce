#include "tests/sim/watched_labels.h"

#include "framework/core/publish.h"
#include "framework/onnx/export.h"
#include "framework/onnx/import.h"
#include "ndp/labels/label_db.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

namespace {

constexpr uint64_t kSeed = 0;
constexpr Time kWatchDeadline = std::chrono::minutes(10), kAfterwards = std::chrono::minutes(1);
constexpr char kWatchedBase[] = "base.onnx";

// One that the Tuner does not have of itself.
const std::string& base_model() {
  static const std::string bytes = [] {
    Model m = import_model(tiny_model());
    m.metadata["name"] = "base";
    return export_model(m);
  }();
  return bytes;
}

void say_what_a_photo_shows(const std::string& url) {
  const auto db = open_label_db(url).or_throw();
  const int64_t collection = db->collection(kDefaultCollection).or_throw();
  const int64_t task = db->task(kDefaultTask).or_throw();
  const std::vector<PhotoPlace> place = {{"1.jpg", sha256("1.jpg")}};
  (void)db->add_photos(collection, place).or_throw();
  set_label(*db, collection, task, "1.jpg", "rose", 1).or_throw();
}

}  // namespace

WatchedLabels::WatchedLabels()
    : network_(timeline_, kSeed, watch_, Bug::kNone),
      tuner_(timeline_, kSeed, network_, watch_, Bug::kNone) {
  network_.connect({.tuner = &tuner_});
  const std::string url = "sqlite:" + directory_.at("labels.db");
  say_what_a_photo_shows(url);
  publish(tuner_.disk(), kWatchedBase, base_model()).or_throw();
  WatchRule rule = parse_watch_rule(R"({"labels": 1, "every_s": 5, "min_interval_s": 0})");
  rule.model = kWatchedBase;
  tuner_.keep_labels_at(url);
  tuner_.watch(rule);
}

void WatchedLabels::run() {
  tuner_.boot();
  Time submitted = Time::max();
  while (timeline_.now() < std::min(submitted, kWatchDeadline - kAfterwards) + kAfterwards) {
    if (!timeline_.step()) break;
    if (tuner_.up() && !tuner_.service().jobs().empty()) {
      submitted = std::min(submitted, timeline_.now());
    }
  }
  check();
}

void WatchedLabels::check() {
  for (const std::string& f : tuner_.failures()) watch_.violation(f);
  if (!tuner_.up()) return watch_.violation("the Tuner does not come back");
  const auto& jobs = tuner_.service().jobs();
  if (jobs.size() != 1) {
    return watch_.violation(std::to_string(jobs.size()) + " jobs were submitted, not one");
  }
  const JobSpec& spec = jobs.begin()->second.spec;
  if (spec.kind != JobKind::kFinetune || spec.model != to_hex(sha256(base_model()))) {
    watch_.violation("what was submitted is no fine-tuning of the rule's model");
  }
  if (!tuner_.models().has(sha256(base_model()))) watch_.violation("the model is gone");
}

}  // namespace ndtrain::sim
