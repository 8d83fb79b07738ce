#include "tuner/service/job_queue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/log.h"
#include "ndp/wire/message_limits.h"
#include "tuner/jobs/job_conflict.h"
#include "tuner/service/store_wait.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

std::string names_of(const std::map<std::string, StoreRecord>& stores) {
  std::string names;
  for (const auto& [name, store] : stores) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

}  // namespace

void JobQueue::check(const JobSpec& spec) const {
  if (!spec.model.empty() && !ports_.models.has(digest_from_hex(spec.model))) {
    throw Error("model ", spec.model.substr(0, 12), " is not on the Tuner; send it first");
  }
  if (spec.model.empty() && !ports_.versions.in_force(spec.task)) {
    throw Error("no version", of_task(spec.task), " is in force yet: a ", name_of(spec.kind),
                spec.kind == JobKind::kFinetune ? " needs a model to begin with; give one"
                : spec.kind == JobKind::kRefine
                    ? " needs a fine-tuning before it"
                    : " needs a fine-tuning before it, or a model; give one");
  }
  check_stores(spec);
  check_task(spec);
}

StoreChoice JobQueue::stores_for(const JobSpec& spec) const {
  const std::chrono::duration<double> timeout(spec.store_timeout);
  return choose_stores(spec.stores, standing(ports_.stores, spec, ports_.stores.here()),
                       std::chrono::duration_cast<std::chrono::nanoseconds>(timeout));
}

uint64_t JobQueue::submit(const JobSpec& spec, const Notes& notes) {
  check(spec);
  const std::map<uint64_t, JobRecord>& jobs = ports_.records.all();
  JobRecord record;
  record.id = jobs.empty() ? 1 : jobs.rbegin()->first + 1;
  for (const PublishedModel& m : ports_.versions.all()) {  // also of jobs that were removed
    record.id = std::max(record.id, m.job + 1);
  }
  record.spec = spec;
  record.submitted = ports_.clock.unix_seconds();
  record.notes = notes;
  if (!notes.empty()) ports_.records.files(record.id).save_notes(notes).or_throw();
  ports_.records.save(record).or_throw();
  ports_.records.put(record);
  begin_next();
  return record.id;
}

void JobQueue::change_notes(uint64_t id, const NotesChange& change) {
  JobRecord record = ports_.records.job(id);
  record.notes = changed_notes(record.notes, change);
  ports_.records.files(id).save_notes(record.notes).or_throw();
  ports_.records.put(record);
}

// A name that was mistyped would be waited for in vain.
void JobQueue::check_stores(const JobSpec& spec) const {
  const auto& all = ports_.stores.all();
  for (const std::string& name : spec.stores.names) {
    const auto store = all.find(name);
    if (store == all.end()) {
      throw Error("this Tuner has met no store '", name, "'; it knows ", names_of(all));
    }
    if (store->second.collection != spec.collection) {
      throw Error("store '", name, "' has photos of the collection ", store->second.collection,
                  ", and the job is of ", spec.collection);
    }
  }
  std::set<std::string> collections;
  for (const auto& [name, store] : all) collections.insert(store.collection);
  if (spec.collection != kDefaultCollection && !collections.contains(spec.collection)) {
    throw Error("this Tuner has met no store with photos of the collection '", spec.collection,
                "'; there are those of ",
                all.empty() ? "none" : fmt::format("{}", fmt::join(collections, ", ")),
                "; `ndtrain pipestore serve --collection NAME` says a store's");
  }
}

// A version of each task may be in force at every store.
void JobQueue::check_task(const JobSpec& spec) const {
  const std::vector<std::string> tasks = ports_.versions.tasks();
  if (std::ranges::find(tasks, spec.task) != tasks.end()) return;
  if (std::ssize(tasks) >= wire::kMostTasks) {
    throw Error("task '", spec.task, "' would be one more than the ", wire::kMostTasks,
                " that a Tuner has versions of; it has ",
                fmt::format("{}", fmt::join(tasks, ", ")));
  }
}

void JobQueue::put_away(uint64_t id, JobState state) {
  JobRecord record = ports_.records.job(id);
  if (!record.open() || record.state == state) {
    throw Error("job ", id, " is ", name_of(record.state), " already");
  }
  const std::string why = "on request";
  const bool in_progress = ports_.runner.find(id) != nullptr;
  if (in_progress) record.message = why;
  record.ended = state == JobState::kPaused ? 0 : ports_.clock.unix_seconds();
  const JobState before = std::exchange(record.state, state);
  if (const Status s = ports_.records.save(record); !s.ok()) {
    throw Error("job ", id, " is ", name_of(before), " as before: that it is ", name_of(state),
                " cannot be kept: ", s.message(),
                "; make room on the Tuner's volume and say it again");
  }
  record.start_now = false;
  ports_.records.put(record);
  ports_.runner.stop_waiting(id);
  if (in_progress) return ports_.runner.leave(id);
  ports_.records.note(id, std::string(name_of(state)) + ": " + why);
}

void JobQueue::resume(uint64_t id, std::string_view changes) {
  JobRecord record = ports_.records.job(id);
  if (record.open() && record.state != JobState::kPaused) {
    throw Error("job ", id, " is ", name_of(record.state), " already");
  }
  if (record.state == JobState::kDone) throw Error("job ", id, " is done");
  if (!record.readable) throw Error("job ", id, ": ", record.message, "; submit it anew");
  const std::string before = record.spec.text();
  const StoreSelection stores = record.spec.stores;
  record.spec = changed(record.spec, changes);
  if (record.spec.stores != stores) {
    check_stores(record.spec);
    const std::optional<SavedManifest> kept = ports_.records.files(id).load_manifest().or_throw();
    if (kept && !record.wrong_rows) {
      throw Error("job ", id, " has its photos already, on ", kept->stores.size(),
                  kept->stores.size() == 1 ? " store" : " stores",
                  ": for other stores submit another job");
    }
  }
  record.state = JobState::kQueued;
  record.message.clear();
  record.ended = 0;
  ports_.records.save(record).or_throw();
  ports_.records.put(record);
  const bool as_before = record.spec.text() == before;
  ports_.records.note(id, "resumed" + (as_before ? "" : " with " + std::string(changes)));
  begin_next();
}

void JobQueue::start_now(uint64_t id) {
  const JobRecord& record = ports_.records.job(id);
  const ActivePtr job = ports_.runner.find(id);
  const bool begun = job && job->phase >= JobPhase::kOpening;  // with stores enough
  const bool waiting = record.state == JobState::kQueued || record.state == JobState::kRunning;
  if (!waiting || begun) {
    throw Error("job ", id, " waits for no store: it is ",
                begun ? "at work" : name_of(record.state));
  }
  if (record.spec.deterministic) {
    throw Error("job ", id,
                " is deterministic: its result depends on the stores that take part; "
                "cancel it, and resume it with --stores and the names of those meant");
  }
  ports_.records.at(id).start_now = true;
  ports_.records.note(id, "begins without waiting for stores that are not ready, on request");
  ports_.runner.start_now(id);
}

// That are to begin: those that were running when the Tuner stopped go first.
std::vector<const JobRecord*> JobQueue::due() const {
  std::vector<const JobRecord*> all;
  for (const JobState state : {JobState::kRunning, JobState::kQueued}) {
    for (const auto& [id, record] : ports_.records.all()) {
      if (record.state == state && !ports_.runner.find(id)) all.push_back(&record);
    }
  }
  return all;
}

// Tasks of a job that is over hold its files, which it may need itself when it is resumed. One that
// waits is waited for by those behind it that it is in conflict with, so that none overtakes it.
std::optional<JobWait> JobQueue::waits_for(const JobRecord& job,
                                           const std::vector<const JobRecord*>& before) const {
  if (ports_.runner.waits_for_room(job.id)) return JobWait{job.id, "there is no room"};
  const std::vector<ActivePtr>& running = ports_.runner.jobs();
  for (const ActivePtr& other : running) {
    if (other->id == job.id) return JobWait{job.id, "what it did before ends"};
    const std::string why = conflict(other->spec, job.spec);
    if (!why.empty()) return JobWait{other->id, why};
  }
  for (const JobRecord* other : before) {
    if (other->id == job.id) break;
    const std::string why = conflict(other->spec, job.spec);
    if (!why.empty()) return JobWait{other->id, why};
  }
  if (running.empty()) return std::nullopt;
  if (running.size() >= ports_.at_once) {
    return JobWait{running.front()->id, fmt::format("as many jobs run as may, {}", running.size())};
  }
  if (ports_.deletions.leaves_traces()) {
    return JobWait{running.front()->id, "photos that were deleted leave its files then"};
  }
  return std::nullopt;
}

std::optional<JobWait> JobQueue::waits_for(uint64_t id) const {
  if (ports_.runner.waits_for_room(id)) return std::nullopt;  // it says so as what it does
  const std::vector<const JobRecord*> all = due();
  const auto at = std::ranges::find(all, id, &JobRecord::id);
  return at == all.end() ? std::nullopt : waits_for(**at, all);
}

std::optional<JobWait> JobQueue::waits_for(const JobSpec& spec) const {
  return waits_for(JobRecord{.spec = spec}, due());
}

void JobQueue::begin_next() {
  if (ports_.deletions.forgetting() || ports_.runner.stopping()) return;
  if (ports_.runner.jobs().size() >= ports_.at_once) return;
  const std::vector<const JobRecord*> all = due();
  for (const JobRecord* job : all) {
    if (!ports_.runner.find(job->id) && !waits_for(*job, all)) begin(job->id);
  }
}

void JobQueue::begin(uint64_t id) {
  JobRecord& record = ports_.records.at(id);
  const bool again = record.state == JobState::kRunning;
  record.state = JobState::kRunning;
  if (record.started == 0) record.started = ports_.clock.unix_seconds();
  if (const Status s = ports_.records.save(record); !s.ok()) {
    if (ports_.runner.wait_for_room(id, s.message())) return;
    record.state = JobState::kFailed;
    record.message = s.message();
    record.ended = ports_.clock.unix_seconds();
    return log::error("job {} cannot begin: {}", record.id, s.message());
  }
  ports_.runner.begin(record, again);
}

}  // namespace ndtrain::tuner
