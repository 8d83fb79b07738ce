#include "tuner/watch/watcher.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/json.h"
#include "framework/core/log.h"
#include "ndp/jobs/model_file.h"
#include "tuner/models/whole_model.h"

namespace ndtrain::tuner {
using namespace ndp;

bool Watcher::trains(const JobRecord& job) const {
  return job.spec.kind == JobKind::kFinetune && job.spec.task == watch_.rule().job.task;
}

bool Watcher::relabels(const JobRecord& job) const {
  const JobSpec& spec = job.spec;
  return spec.kind == JobKind::kRelabel && !spec.dry_run && spec.task == watch_.rule().job.task;
}

// What fails is tried again.
void Watcher::start(std::function<Continuation()> f) {
  working_ = true;
  setting_.lanes.start(setting_.lane, [this, f = std::move(f)]() -> Continuation {
    std::string failure;
    Continuation after;
    try {
      after = f();
    } catch (const std::exception& e) {
      failure = e.what();
    }
    return [this, failure, after] {
      working_ = false;
      if (failure.empty()) return after();
      log::warn("watch: {}", failure);
      watch_.failed(failure);
    };
  });
}

void Watcher::tick() {
  if (working_ || !watch_.wants_to_look()) return;
  drop_model();
  if (rests()) return;
  const std::optional<PublishedModel> in_force = setting_.versions.in_force(watch_.rule().job.task);
  WatchQuery query{.collection = watch_.rule().job.collection,
                   .task = watch_.rule().job.task,
                   .trained = trained(),
                   .enough = watch_.rule().labels,
                   .count_missing = watch_.rule().counts_missing(),
                   .times = watch_.times()};
  if (in_force) query.in_force = in_force->content;
  start([this, in_force, query] {
    const WatchObservation observation = see(query).or_throw();
    return [this, in_force, observation, query] {
      if (trained() != query.trained) return;  // its truths are trained on by now: look again
      looked(observation, in_force);
    };
  });
}

int64_t Watcher::trained() const {
  int64_t newest = 0;
  for (const auto& [id, job] : setting_.service.jobs()) {
    if (trains(job) && job.state == JobState::kDone) newest = std::max(newest, job.submitted);
  }
  return newest;
}

Result<WatchObservation> Watcher::see(const WatchQuery& query) {
  if (!db_) {
    auto opened = open_label_db(setting_.labels, OpenLabelDb::kExisting);
    if (opened.status().code() == Code::kNotFound) return WatchObservation();
    if (!opened.ok()) return opened.status();
    db_ = std::move(*opened);
  }
  return read_labels(*db_, query);
}

void Watcher::looked(WatchObservation observation, const std::optional<PublishedModel>& in_force) {
  if (in_force) observation.in_force = in_force->version;
  for (const auto& [id, job] : setting_.service.jobs()) {
    if (trains(job)) observation.last_training = std::max(observation.last_training, job.submitted);
    if (relabels(job) && job.spec.collection == watch_.rule().job.collection) {
      observation.last_relabelling = std::max(observation.last_relabelling, job.submitted);
    }
    const JobKind kind = job.spec.kind;
    observation.busy |= job.open() && (kind == JobKind::kFinetune || kind == JobKind::kRelabel);
  }
  observation.came_back = came_back();
  observation.photos = std::max(observation.photos, photos_here());
  const WatchDecision decision = watch_.look(observation);
  if (decision.due == WatchDecision::Due::kNothing) {
    if (decision.why != said_) log::info("watch: nothing is due: {}", decision.why);
    said_ = decision.why;
    return;
  }
  JobSpec spec = watch_.rule().job;
  if (decision.due == WatchDecision::Due::kTraining) {
    return start([this, in_force, spec]() mutable {
      const Digest model = model_to_start_from(in_force);
      spec.model = to_hex(model);
      return [this, model, spec] {
        begun_from_ = model;
        submit(spec);
      };
    });
  }
  submit({.kind = JobKind::kRelabel,
          .stores = spec.stores,
          .store_timeout = spec.store_timeout,
          .lost_after = spec.lost_after,
          .allow_missing = spec.allow_missing,
          .task = spec.task,
          .collection = spec.collection,
          .only = decision.due == WatchDecision::Due::kLabelMissing ? RelabelOnly::kMissing
                                                                    : RelabelOnly::kStale});
}

int64_t Watcher::photos_here() const {
  const JobSpec& job = watch_.rule().job;
  int64_t photos = 0;
  for (const StoreRecord& s : setting_.service.stores()) {
    const bool works = s.here && !s.drained && s.collection == job.collection;
    if (works && (job.stores.number > 0 || job.stores.includes(s.name))) {
      photos += static_cast<int64_t>(s.photos);
    }
  }
  return photos;
}

// Not where the rule's number of stores leaves some out every time.
std::string Watcher::came_back() const {
  const auto& jobs = setting_.service.jobs();
  const auto last = std::find_if(jobs.rbegin(), jobs.rend(),
                                 [this](const auto& entry) { return relabels(entry.second); });
  if (last == jobs.rend() || watch_.rule().job.stores.number > 0) return "";
  const Json result = parse_json(last->second.result);
  for (const Json& apart : result.value("left_out_stores", Json::array())) {
    for (const StoreRecord& s : setting_.service.stores()) {
      const bool works = s.here && !s.drained && watch_.rule().job.stores.includes(s.name);
      if (works && apart.at("store") == s.name) return s.name;
    }
  }
  return "";
}

Digest Watcher::model_to_start_from(const std::optional<PublishedModel>& in_force) {
  const std::string& given = watch_.rule().model;
  if (in_force) {
    Result<Digest> whole = whole_model(setting_.fs, setting_.models, setting_.jobs, *in_force);
    if (whole.status().code() != Code::kNotFound) return std::move(whole).or_throw();
    const std::string& gone = whole.status().message();
    if (given.empty()) {
      throw Error("a fine-tuning is due, but ", gone, "; name a model to start from in the rule");
    }
    log::warn("watch: {}; the fine-tuning starts from {}", gone, given);
  }
  return setting_.models.add_file(load_model(setting_.fs, given).path).or_throw();
}

// Until somebody begins it anew.
bool Watcher::rests() {
  const std::string& task = watch_.rule().job.task;
  if (!setting_.versions.is_gone(task)) return false;
  const std::string why = "the task " + task +
                          " was taken away; a fine-tuning begins it anew, and else the rule can go "
                          "from --watch";
  if (why != said_) log::info("watch: rests: {}", why);
  said_ = why;
  watch_.failed(why);
  return true;
}

void Watcher::submit(const JobSpec& spec) {
  if (rests()) return;
  try {
    const uint64_t job = setting_.service.submit(spec);
    watch_.submitted(job);
    said_.clear();
    log::info("watch: job {}, a {}: {}", job, name_of(spec.kind), watch_.decision().why);
  } catch (const std::exception& e) {
    log::warn("watch: {}", e.what());
    watch_.failed(e.what());
  }
}

// Or the Tuner would keep a whole model for every version there ever was.
void Watcher::drop_model() {
  if (!begun_from_) return;
  const std::string hex = to_hex(*begun_from_);
  for (const auto& [id, job] : setting_.service.jobs()) {
    if (job.spec.model == hex && job.state != JobState::kDone) return;  // or it may be resumed
  }
  const auto all = setting_.versions.all();
  if (std::ranges::none_of(all, [&](const auto& v) { return v.has_file(*begun_from_); })) {
    if (const Status s = setting_.models.remove(*begun_from_); !s.ok()) {
      log::warn("watch: {}", s.message());
    }
  }
  begun_from_.reset();
}

}  // namespace ndtrain::tuner
