#include "tests/sim/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "framework/core/publish.h"
#include "tests/sim/job_specs.h"
#include "tests/sim/labelling.h"
#include "tuner/ingest/spool.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

namespace {

constexpr Time kSimulationDeadline = std::chrono::hours(6);  // after that a job hangs

constexpr uint64_t kFinetuning = 1, kRelabelling = 2;  // jobs

}  // namespace

Simulation::Simulation(uint64_t seed, int faults, Bug bug)
    : seed_(seed),
      faults_(faults),
      disturbed_(faults > 0),
      bug_(bug),
      rng_(seed, "simulation"),
      upload_rng_(seed, "uploads"),
      trash_rng_(seed, "trash"),
      collection_(seed % Collection::kKinds),
      network_(timeline_, seed, watch_, bug) {
  allow_missing_ = faults > 0 && rng_.next_below(8) == 0;
  tuner_ = std::make_unique<TunerMachine>(timeline_, seed, network_, watch_, bug);
  Network::Ends ends;
  ends.tuner = tuner_.get();
  for (size_t s = 0; s < Collection::kStores; ++s) {
    stores_.push_back(
        std::make_unique<StoreMachine>(timeline_, seed, network_, collection_, s, bug));
    ends.stores[s] = stores_[s].get();
  }
  ends.to_tuner = [this](LinkEvent<wire::FromStore> e) { tuner_->handle(std::move(e)); };
  ends.to_store = [this](size_t s, LinkEvent<wire::ToStore> e) {
    stores_[s]->handle(std::move(e));
  };
  network_.connect(std::move(ends));
}

Machine& Simulation::machine(size_t which) {
  return which == 0 ? static_cast<Machine&>(*tuner_) : *stores_.at(which - 1);
}

void Simulation::tell(const std::string& what) {
  story_.push_back(
      fmt::format("{:8.3f} {}", static_cast<double>(timeline_.now().count()) * 1e-9, what));
}

// Start order does not matter.
Ending Simulation::run() {
  timeline_.after(seconds(3 * rng_.next_uniform()), [this] { tuner_->boot(); });
  for (auto& store : stores_) {
    timeline_.after(seconds(3 * rng_.next_uniform()), [&store] { store->boot(); });
  }
  timeline_.after(seconds(1), [this] { look_after(); });
  timeline_.after(seconds(2), [this] { upload(); });
  timeline_.after(seconds(3), [this] { use_trash(); });
  if (faults_ > 0) timeline_.after(seconds(20 * rng_.next_uniform()), [this] { strike(); });
  Ending ending;
  while (!over() && timeline_.step()) {
  }
  ending.took = timeline_.now();
  if (timeline_.now() >= kSimulationDeadline) {
    watch_.violation("nothing is wrong any more, and the job does not end");
  }
  for (const std::string& f : tuner_->failures()) watch_.violation(f);
  for (const auto& store : stores_) {
    for (const std::string& f : store->failures()) watch_.violation(f);
  }
  if (tuner_->up()) {
    for (const auto& [id, job] : tuner_->service().jobs()) {
      const bool done = job.state == JobState::kDone;
      (id == kFinetuning ? ending.done : ending.labelled) = done;
      for (const std::string& line : tuner_->service().log(id))
        story_.push_back("         | " + line);
    }
  }
  if (ending.labelled) {
    check_labels(*tuner_->labels(), collection_,
                 tuner_->versions().in_force(kDefaultTask).value().head, lost_, !allow_missing_,
                 watch_);
  }
  if (ending.done && ending.labelled) check_trash();
  if (ending.done) check_result(ending);
  if (ending.done) check_uploads();
  ending.violations = watch_.violations();
  ending.repeats = watch_.repeats;
  ending.lost_store = lost_ < Collection::kStores;
  ending.coverage = coverage_;
  ending.story = std::move(story_);
  return ending;
}

bool Simulation::over() {
  if (!watch_.violations().empty() || timeline_.now() >= kSimulationDeadline) return true;
  if (!tuner_->failures().empty()) return true;
  if (faults_ > 0 || timeline_.now() < healed_ || !tuner_->up()) return false;
  const JobRecord* job = last_job();
  if (!job) return false;
  if (job->state == JobState::kFailed) return given_up_;
  if (job->state == JobState::kDone && job->id == kRelabelling) {
    return everybody_well() && uploads_heard() && deletions_heard() && trash_heard();
  }
  // Without a manifest there is no job to fail: it waits for the third store.
  return lost_ < Collection::kStores && timeline_.now() > healed_ + seconds(3 * kStoreTimeout) &&
         !tuner_->disk().exists(fmt::format("state/jobs/{}/manifest.cbor", job->id));
}

const JobRecord* Simulation::last_job() const {
  const auto& jobs = tuner_->service().jobs();
  return jobs.empty() ? nullptr : &jobs.rbegin()->second;
}

// Every store that is left has put the new version in force.
bool Simulation::everybody_well() const {
  const std::optional<PublishedModel> published = tuner_->versions().in_force(kDefaultTask);
  return std::ranges::all_of(stores_, [&](const auto& store) {
    return store->gone() ||
           (store->up() && published && store->version_in_force() == published->version);
  });
}

// A new photo, or another word about an earlier one; a promise is what the store has answered.
void Simulation::upload() {
  const bool done = tuner_->up() && !tuner_->service().jobs().empty() &&
                    !tuner_->service().jobs().begin()->second.open();
  if (!done) timeline_.after(seconds(4 * upload_rng_.next_uniform()), [this] { upload(); });
  const size_t store = upload_rng_.next_below(Collection::kStores);
  const uint64_t photo = upload_rng_.next_below(20), n = ++uploads_;
  if (upload_rng_.next_below(10) == 0) return remove_upload(store, photo);
  if (!stores_[store]->awake()) return;
  const auto trashed = trashed_.find(StoreMachine::uploaded(store, photo));
  if (trashed != trashed_.end()) trashed->second.reset();
  stores_[store]->upload(photo, n, [&] { uploaded_[{store, photo}] = n; });
}

// It may die over it, or answer that it cannot: its disk is full, say.
void Simulation::ask_tuner(const std::function<void()>& what) {
  if (!tuner_->alive() || !tuner_->awake()) return;
  tuner_->turn([&] {
    try {
      what();
    } catch (const Error& e) {
      tell(std::string("the Tuner answers: ") + e.what());
    }
  });
}

void Simulation::remove_upload(size_t store, uint64_t photo) {
  ask_tuner([&] {
    const Digest id = StoreMachine::uploaded(store, photo);
    bool& answered = deleted_[id];
    (void)tuner_->service().delete_photos({&id, 1});
    answered = true;
  });
}

// By every store, and the Tuner has let go of them.
bool Simulation::deletions_heard() const {
  const KeptUploads::Labels kept = KeptUploads::on(tuner_->disk());
  return std::ranges::all_of(deleted_, [&](const auto& d) {
    const auto& [id, answered] = d;
    if (!answered) return true;
    return !kept.contains(to_hex(id)) &&
           std::ranges::all_of(stores_, [&, photo = id](const auto& s) {
             return s->gone() || (s->up() && s->was_deleted(photo));
           });
  });
}

// Into the trash, for longer than any clock is set ahead, or back.
void Simulation::use_trash() {
  constexpr int64_t kForever = int64_t{1} << 40;  // Unix seconds
  const bool done = tuner_->up() && !tuner_->service().jobs().empty() &&
                    !tuner_->service().jobs().begin()->second.open();
  if (!done) timeline_.after(seconds(4 * trash_rng_.next_uniform()), [this] { use_trash(); });
  const size_t store = trash_rng_.next_below(Collection::kStores);
  const Digest id = StoreMachine::uploaded(store, trash_rng_.next_below(20));
  const bool put = trash_rng_.next_below(3) > 0;
  ask_tuner([&] {
    if (tuner_->service().is_deleted(id)) return;
    std::optional<bool>& in = trashed_[id];
    in.reset();
    if (put) {
      (void)tuner_->service().trash_photos({{.photo = id, .until = kForever}});
    } else {
      tuner_->service().restore_photos({&id, 1});
    }
    in = put;
  });
}

// By every store, and by what is in the place of the label database.
bool Simulation::trash_heard() const {
  const TunerService& service = tuner_->service();
  const std::set<std::string> hidden = KeptUploads::hidden_on(tuner_->disk());
  return std::ranges::all_of(trashed_, [&](const auto& t) {
    const Digest& id = t.first;
    const bool in = service.trash().has(id);
    return hidden.contains(to_hex(id)) == in && std::ranges::all_of(stores_, [&](const auto& s) {
             return s->gone() || (s->up() && s->hides(id) == in);
           });
  });
}

void Simulation::check_trash() {
  const TunerService& service = tuner_->service();
  for (const auto& [id, in] : trashed_) {
    if (deleted_.contains(id) || !in) continue;
    if (service.is_deleted(id)) watch_.violation("a photo of the trash is deleted");
    if (service.trash().has(id) != *in) {
      watch_.violation(*in ? "a photo is not in the trash any more" : "a photo is not restored");
    }
  }
}

bool Simulation::uploads_heard() const {
  return std::ranges::all_of(
      stores_, [](const auto& s) { return s->gone() || (s->up() && s->outbox_empty()); });
}

// One that died before it could answer may have kept what it was told.
void Simulation::check_uploads() {
  const KeptUploads::Labels kept = KeptUploads::on(tuner_->disk());
  for (const auto& [which, n] : uploaded_) {
    const auto& [store, photo] = which;
    const Digest id = StoreMachine::uploaded(store, photo);
    if (stores_[store]->gone() || deleted_.contains(id)) continue;
    const auto at = kept.find(to_hex(id));
    if (at == kept.end()) {
      watch_.violation(fmt::format("upload {} of store {} is lost", photo, store));
    } else if (std::stoull(at->second) < n) {
      watch_.violation(fmt::format("upload {} of store {} is {}, and was answered with {}", photo,
                                   store, at->second, n));
    }
  }
}

void Simulation::look_after() {
  timeline_.after(seconds(5), [this] { look_after(); });
  ask_tuner([this] { look_at_jobs(); });
  ask_tuner([this] { look_at_stores(); });
}

// One is drained for longer than it should be when the Tuner could not be told.
void Simulation::look_at_stores() {
  for (const StoreRecord& store : tuner_->service().stores()) {
    const bool due = store.drained && timeline_.now() >= drained_until_[store.name];
    if (due) tuner_->service().drain(store.name, false);
  }
}

void Simulation::look_at_jobs() {
  TunerService& service = tuner_->service();
  if (!last_job()) {
    service.submit(finetuning(tuner_->model(), Collection::kStores, allow_missing_));
    return;
  }
  const JobRecord job = *last_job();
  if (job.state == JobState::kDone && job.id == kFinetuning) {
    service.submit(
        relabelling(Collection::kStores - (lost_ < Collection::kStores), allow_missing_));
    if (disturbed_ && std::exchange(faults_, faults_ + kLateFaults) == 0) {
      timeline_.after(seconds(3 * rng_.next_uniform()), [this] { strike(); });
    }
    return;
  }
  if (job.state == JobState::kPaused && timeline_.now() >= paused_until_) service.resume(job.id);
  if (job.state != JobState::kFailed || given_up_ || timeline_.now() < healed_) return;
  tell("the job has failed: " + job.message);
  if (judged_ != job.ended) judge_failure(job);  // else a resume that the Tuner did not survive
  judged_ = job.ended;
  if (!given_up_) service.resume(job.id);
}

// A declared failure is right for photos that are on a store that does not return. A disk that was
// full may fail the job too, and then resuming it must help.
void Simulation::judge_failure(const JobRecord& job) {
  bool full = tuner_->was_full();
  for (auto& store : stores_) full = store->was_full() || full;
  if (lost_ < Collection::kStores &&
      job.message.find("only on store " + Collection::name_of(lost_)) != std::string::npos) {
    given_up_ = only_on_lost();
    if (given_up_) return;
  }
  if (!full) watch_.violation("the job failed: " + job.message);
}

bool Simulation::only_on_lost() const {
  for (size_t s = 0; s < Collection::kStores; ++s) {
    for (const StorePhoto& p : collection_.of(s)) {
      if (collection_.holds(lost_, p.digest) && !collection_.readable(p.digest, lost_)) return true;
    }
  }
  return false;
}

void Simulation::check_result(Ending& ending) {
  const std::vector<PublishedModel> versions = tuner_->versions().all();
  tuner_->free_disk();
  tuner_->die(Machine::Death::kKill, kSimulationDeadline);  // it lets go of its files
  MemoryFs& disk = tuner_->disk();
  if (versions.size() != 1) {
    return watch_.violation(fmt::format("one job has published {} versions", versions.size()));
  }
  const JobFiles files(disk, "state/jobs/1");
  const auto kept = files.load_manifest().or_throw();
  if (!kept) return watch_.violation("the manifest is gone");
  ending.all_took_part = kept->stores.size() == Collection::kStores;
  const size_t without = ending.all_took_part ? Collection::kStores : lost_;
  for (uint64_t n = 0; n < kept->manifest.size(); ++n) {
    const Digest& photo = kept->manifest.entry(n).digest;
    const auto row = watch_.spool.find(photo);
    if (row == watch_.spool.end()) {
      if (collection_.readable(photo, without) && !allow_missing_) {
        watch_.violation(fmt::format("photo {} is lost", n));
      }
    } else if (row->second != Collection::row(photo)) {
      watch_.violation(fmt::format("photo {} has the row of another", n));
    }
  }
  ending.rows = watch_.spool.size();
  // A Tuner that starts again removes the rows of what is done.
  const auto spool =
      SegmentStore::open(disk, timeline_.clock(), "state/jobs/1/spool", {.budget_bytes = 1 << 28})
          .or_throw();
  uint64_t records = 0;
  for (const GroupInfo& group : spool->groups()) records += static_cast<uint64_t>(group.records);
  if (records > ending.rows) {
    watch_.violation(fmt::format("{} rows of {} photos", records, ending.rows));
  }
  const Result<std::string> last = disk.read("state/jobs/1/run/last.safetensors");
  if (!last.ok()) return watch_.violation("what was trained is gone: " + last.status().message());
  ending.weights = to_hex(versions.back().content) + " " + to_hex(sha256(*last));
}

Ending simulate(uint64_t seed, Bug bug) {
  static std::map<uint64_t, std::string> undisturbed;
  const uint64_t kind = seed % Collection::kKinds;
  if (!undisturbed.contains(kind)) {
    const Ending calm = Simulation(kind, 0).run();
    if (!calm.done || !calm.violations.empty()) {
      Ending ending = calm;
      ending.violations.push_back("the undisturbed job went wrong");
      return ending;
    }
    undisturbed[kind] = calm.weights;
  }
  Ending ending = Simulation(seed, Simulation::kFaults, bug).run();
  if (!ending.done || !ending.violations.empty()) return ending;
  ending.whole = ending.all_took_part && ending.rows == Collection(kind).rows();
  if (ending.whole && ending.weights != undisturbed[kind]) {
    ending.violations.push_back("other weights than those of the undisturbed job");
  }
  return ending;
}

}  // namespace ndtrain::sim
