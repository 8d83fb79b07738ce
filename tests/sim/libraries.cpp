#include "tests/sim/libraries.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/publish.h"
#include "tests/sim/job_specs.h"
#include "tests/sim/labelling.h"
#include "tests/support/files.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

namespace {

constexpr Time kLibraryDeadline = std::chrono::hours(1);
constexpr char kBase[] = "base.onnx";  // that a rule begins with

// A label database with nothing in it, which each seed begins with.
const std::string& empty_database() {
  static const std::string bytes = [] {
    const support::TemporaryDirectory directory;
    const std::string path = directory.at("labels.db");
    (void)open_label_db("sqlite:" + path).or_throw();  // and closed: all of it is in the file
    return real_fs().read(path).or_throw();
  }();
  return bytes;
}

std::string text_of(const TaskOf& of) { return of.first + " of " + of.second; }

}  // namespace

Libraries::Libraries(uint64_t seed, int faults, Bug bug)
    : rng_(seed, "libraries"),
      people_(seed, "people"),
      faults_(faults),
      collection_(seed % Collection::kKinds),
      first_(collection_),
      url_("sqlite:" + directory_.at("labels.db")),
      network_(timeline_, seed, watch_, bug) {
  tuner_ = std::make_unique<TunerMachine>(timeline_, seed, network_, watch_, bug);
  tuner_->keep_labels_at(url_);
  Network::Ends ends;
  ends.tuner = tuner_.get();
  const bool uploads_in_jobs = rng_.next_below(2) == 0;
  for (size_t s = 0; s < Collection::kStores; ++s) {
    stores_.push_back(
        std::make_unique<StoreMachine>(timeline_, seed, network_, collection_, s, bug));
    stores_[s]->join(s == 2 ? kGarden : std::string(kDefaultCollection), uploads_in_jobs);
    ends.stores[s] = stores_[s].get();
  }
  ends.to_tuner = [this](LinkEvent<wire::FromStore> e) { tuner_->handle(std::move(e)); };
  ends.to_store = [this](size_t s, LinkEvent<wire::ToStore> e) {
    stores_[s]->handle(std::move(e));
  };
  network_.connect(std::move(ends));
  plan();
  say_what_photos_show();
}

// Each task has a version first; what comes then is drawn.
void Libraries::plan() {
  const std::string normal(kDefaultCollection), usual(kDefaultTask);
  labels_ = {{usual, normal}, {kBirds, kGarden}};
  if (people_.next_below(2)) labels_.emplace(kBirds, normal);
  if (people_.next_below(3) == 0) labels_.emplace(usual, kGarden);
  coming_ = {job(JobKind::kFinetune, {usual, normal}, 1),
             job(JobKind::kFinetune, {kBirds, kGarden}, 2)};
  if (people_.next_below(2)) std::swap(coming_[0], coming_[1]);
  for (const TaskOf& of : labels_) coming_.push_back(job(JobKind::kRelabel, of, 0));
  const std::vector<TaskOf> all(labels_.begin(), labels_.end());
  for (uint64_t n = 3; n < 5; ++n) {
    const JobKind kind = people_.next_below(3) ? JobKind::kFinetune : JobKind::kRelabel;
    coming_.push_back(job(kind, all[people_.next_below(all.size())], n));
  }
  if (people_.next_below(2)) return;
  publish(tuner_->disk(), kBase, tiny_model()).or_throw();
  for (const TaskOf& of : {TaskOf{kBirds, kGarden}, TaskOf{usual, normal}}) {
    WatchRule rule{.labels = 3,
                   .window_s = 1,  // drift is never said, and its windows are read all the same
                   .window_photos = int64_t{1} << 40,
                   .min_interval_s = 40,
                   .every_s = 5,
                   .model = kBase};
    rule.job = job(JobKind::kFinetune, of, 9);
    rule.job.model = "";
    tuner_->watch(rule);
  }
}

JobSpec Libraries::job(JobKind kind, const TaskOf& of, uint64_t seed) const {
  const size_t stores = stores_of(of.second);
  JobSpec spec = kind == JobKind::kRelabel ? relabelling(stores, false)
                                           : finetuning(sha256(tiny_model()), stores, false);
  std::tie(spec.task, spec.collection) = of;
  if (kind == JobKind::kRelabel) return spec;
  spec.seed = spec.trainer.seed = seed;
  spec.promote = Promote::kAlways;
  return spec;
}

// In the task birds, of which stores' folders say nothing, of a third of their photos.
void Libraries::say_what_photos_show() {
  support::write_file(real_fs(), directory_.at("labels.db"), empty_database());
  const auto db = open_label_db(url_).or_throw();
  const int64_t task = db->task(kBirds).or_throw();
  std::vector<std::string> names;
  for (uint32_t c = 0; c < Collection::kClasses; ++c) names.push_back(class_name(kBirds, c));
  const std::vector<int64_t> classes = db->class_ids(task, names).or_throw();
  for (size_t s = 0; s < stores_.size(); ++s) {
    std::vector<PhotoPlace> places;
    LabelBatch batch{.task = task, .source = LabelSource::kHuman};
    for (const StorePhoto& p : first_.of(s)) {
      if (p.digest[3] % 3 > 0) continue;
      places.push_back({join(Collection::name_of(s), p.path), p.digest});
    }
    const int64_t collection = db->collection(collection_of(s)).or_throw();
    const std::vector<int64_t> ids = db->add_photos(collection, places).or_throw();
    for (size_t i = 0; i < ids.size(); ++i) {
      batch.labels.push_back({.photo = ids[i],
                              .class_id = classes[places[i].digest[0] % Collection::kClasses],
                              .score = {},
                              .top_k = {},
                              .time = 1});
    }
    (void)db->put_labels(batch).or_throw();
  }
}

void Libraries::tell(const std::string& what) {
  story_.push_back(
      fmt::format("{:8.3f} {}", static_cast<double>(timeline_.now().count()) * 1e-9, what));
}

void Libraries::run() {
  timeline_.after(seconds(3 * rng_.next_uniform()), [this] { tuner_->boot(); });
  for (auto& store : stores_) {
    timeline_.after(seconds(3 * rng_.next_uniform()), [&store] { store->boot(); });
  }
  timeline_.after(seconds(1), [this] { look_after(); });
  timeline_.after(seconds(2), [this] { use_uploads(); });
  if (faults_ > 0) timeline_.after(seconds(30 * rng_.next_uniform()), [this] { strike(); });
  while (!over() && timeline_.step()) {
  }
  for (const std::string& f : tuner_->failures()) violation(f);
  for (const auto& store : stores_) {
    for (const std::string& f : store->failures()) violation(f);
  }
  if (timeline_.now() >= kLibraryDeadline)
    violation("nothing is wrong any more, and " + unsettled());
  if (watch_.violations().empty()) check();
  if (!tuner_->up()) return;
  for (const auto& [id, job] : tuner_->service().jobs()) {
    for (const std::string& line : tuner_->service().log(id)) {
      story_.push_back(fmt::format("    {} | {}", id, line));
    }
    jobs_ += job.state == JobState::kDone;
  }
  digest_ = digest_of_all();
  versions_ = tuner_->versions().all().size();
  watched_ = tuner_->service().jobs().size() -
             std::min(tuner_->service().jobs().size(), next_ + last_.size());
}

bool Libraries::over() const {
  if (!watch_.violations().empty() || timeline_.now() >= kLibraryDeadline) return true;
  if (!tuner_->failures().empty()) return true;
  return calm() && unsettled().empty();
}

std::string Libraries::unsettled() const {
  if (!tuner_->awake()) return "the Tuner is not there";
  const TunerService& service = tuner_->service();
  if (next_ < coming_.size()) return fmt::format("job {} of people's is to come", next_ + 1);
  for (const auto& [id, job] : service.jobs()) {
    if (job.open() || job.state == JobState::kFailed) return fmt::format("job {} is open", id);
  }
  for (const TaskOf& of : labels_) {
    const auto last = last_.find(of);
    const auto version = tuner_->versions().in_force(of.first);
    if (last == last_.end() || !version || last->second != version->version) {
      return text_of(of) + " is to be relabelled at last";
    }
  }
  for (const auto& store : stores_) {
    const std::string why = unsettled(*store);
    if (!why.empty()) return store->name() + ": " + why;
  }
  return "";
}

std::string Libraries::unsettled(const StoreMachine& store) const {
  if (!store.awake()) return "it is not there";
  if (!store.outbox_empty()) return "its uploads are not heard";
  for (const auto& [task, collection] : labels_) {
    if (collection != store.collection()) continue;
    const uint64_t version = tuner_->versions().in_force(task).value().version;
    if (store.version_in_force(task) != version) {
      return fmt::format("it has version {} of {} in force, not {}", store.version_in_force(task),
                         task, version);
    }
    for (const StorePhoto& photo : store.uploads()) {
      const auto known = store.log().find(photo.digest, task);
      if (store.hides(photo.digest) || (known && known->version > 0)) continue;
      return "the task " + task + " has not labelled an upload";
    }
  }
  for (const auto& [photo, answered] : deleted_) {
    if (answered && !store.was_deleted(photo)) return "it has not heard of a deletion";
  }
  for (const auto& [photo, in] : trashed_) {
    if (store.hides(photo) != tuner_->service().trash().has(photo)) {
      return "it has not heard of the trash";
    }
  }
  return "";
}

// It may die over it, or answer that it cannot: its disk is full, say.
void Libraries::ask_tuner(const std::function<void()>& what) {
  if (!tuner_->alive() || !tuner_->awake()) return;
  tuner_->turn([&] {
    try {
      what();
    } catch (const Error& e) {
      tell(std::string("the Tuner answers: ") + e.what());
    }
  });
}

void Libraries::look_after() {
  timeline_.after(seconds(5), [this] { look_after(); });
  ask_tuner([this] { check_stores(); });
  ask_tuner([this] { look_at_jobs(); });
  if (!calm()) return;
  ask_tuner([this] {
    for (const StoreRecord& store : tuner_->service().stores()) {
      if (store.drained) tuner_->service().drain(store.name, false);
    }
  });
}

// A version is of its own task, and of no other.
void Libraries::check_stores() {
  for (const auto& store : stores_) {
    if (!store->alive()) continue;
    const std::vector<StorePhoto> uploads = store->uploads();
    for (const std::string& task : {std::string(kDefaultTask), std::string(kBirds)}) {
      const uint64_t in_force = store->version_in_force(task);
      check_version(in_force, task, store->name() + " has in force");
      if (in_force > 0 && !labels_.contains({task, store->collection()})) {
        violation(fmt::format("{} has a version of {} in force, of photos of {}", store->name(),
                              task, store->collection()));
      }
      for (const StorePhoto& photo : uploads) {
        const auto known = store->log().find(photo.digest, task);
        check_version(known ? known->version : 0, task, store->name() + " labels an upload by");
      }
    }
  }
}

void Libraries::check_version(uint64_t number, const std::string& task, const std::string& what) {
  const auto version = tuner_->versions().find(number);
  if (!version || version->task == task) return;
  violation(fmt::format("{} version {} of {}, in task {}", what, number, version->task, task));
}

// A disk that was full may fail jobs, and then resuming them must help.
void Libraries::judge_failed_jobs() {
  std::vector<std::string> failed;
  for (const auto& [id, job] : tuner_->service().jobs()) {
    if (job.state == JobState::kFailed && judged_.emplace(id, job.ended).second) {
      failed.push_back(fmt::format("job {} has failed: {}", id, job.message));
    }
  }
  if (failed.empty() || was_full()) return;
  for (const std::string& job : failed) violation(job);
}

// One behind the other, besides those of rules.
void Libraries::look_at_jobs() {
  judge_failed_jobs();
  TunerService& service = tuner_->service();
  for (const auto& [id, job] : service.jobs()) {
    const bool again = job.state == JobState::kFailed || job.state == JobState::kPaused;
    if (again && calm()) return service.resume(id);
    if (job.open() || again) return;
  }
  if (next_ < coming_.size()) {
    submit(coming_[next_]);
    ++next_;
  } else if (calm()) {
    relabel_at_last();
  }
}

bool Libraries::was_full() {
  bool full = tuner_->was_full();
  for (auto& store : stores_) full = store->was_full() || full;
  return full;
}

void Libraries::submit(const JobSpec& spec) {
  if (spec.kind == JobKind::kFinetune) (void)tuner_->models().add(tiny_model()).or_throw();
  const uint64_t id = tuner_->service().submit(spec);
  tell(fmt::format("job {}: {} {}", id, name_of(spec.kind), text_of({spec.task, spec.collection})));
}

void Libraries::relabel_at_last() {
  for (const TaskOf& of : labels_) {
    const uint64_t version = tuner_->versions().in_force(of.first).value().version;
    const auto last = last_.find(of);
    if (last != last_.end() && last->second == version) continue;
    submit(job(JobKind::kRelabel, of, 0));
    last_[of] = version;
    return;
  }
}

void Libraries::use_uploads() {
  if (calm() && next_ == coming_.size()) return;
  timeline_.after(seconds(4 * people_.next_uniform()), [this] { use_uploads(); });
  const size_t store = people_.next_below(stores_.size());
  use_upload(store, StoreMachine::uploaded(store, people_.next_below(StoreMachine::kUploads)));
}

void Libraries::use_upload(size_t store, const Digest& photo) {
  const uint64_t what = people_.next_below(12);
  const uint64_t number = people_.next_below(Collection::kClasses);
  const std::string task = people_.next_below(2) ? kBirds : std::string(kDefaultTask);
  if (what == 0) {
    return ask_tuner([&] {
      bool& answered = deleted_[photo];
      (void)tuner_->service().delete_photos({&photo, 1});
      answered = true;
    });
  }
  if (what <= 2) return use_trash(photo, what == 1);
  if (!stores_[store]->awake()) return;
  if (what <= 6) {
    const auto trashed = trashed_.find(photo);
    if (trashed != trashed_.end()) trashed->second.reset();
    stores_[store]->take(photo, [&] { taken_.emplace(photo, store); });
  } else {
    const std::string name = class_name(task, number);
    stores_[store]->say(photo, task, name, [&](int64_t time) {
      said_[{photo, task}] = {time, name};
    });
  }
}

void Libraries::use_trash(const Digest& photo, bool put) {
  constexpr int64_t kForever = int64_t{1} << 40;  // Unix seconds
  ask_tuner([&] {
    if (tuner_->service().is_deleted(photo)) return;
    std::optional<bool>& in = trashed_[photo];
    in.reset();
    if (put) {
      (void)tuner_->service().trash_photos({{.photo = photo, .until = kForever}});
    } else {
      tuner_->service().restore_photos({&photo, 1});
    }
    in = put;
  });
}

}  // namespace ndtrain::sim
