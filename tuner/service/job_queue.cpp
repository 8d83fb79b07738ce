#include "tuner/service/job_queue.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/log.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

std::string names_of(const std::map<std::string, StoreRecord>& stores) {
  std::string names;
  for (const auto& [name, store] : stores) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

// The oldest in this state; null: none is.
const JobRecord* first_that_is(JobState state, const JobRecords& records) {
  for (const auto& [id, record] : records.all()) {
    if (record.state == state) return &record;
  }
  return nullptr;
}

}  // namespace

uint64_t JobQueue::submit(const JobSpec& spec, const Notes& notes) {
  if (!spec.model.empty() && !ports_.models.has(digest_from_hex(spec.model))) {
    throw Error("model ", spec.model.substr(0, 12), " is not on the Tuner; send it first");
  }
  if (spec.model.empty() && !ports_.versions.in_force(spec.task)) {
    throw Error("no version", of_task(spec.task), " is in force yet: a ", name_of(spec.kind),
                " needs a fine-tuning before it, or a model (-m)");
  }
  check_stores(spec);
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
  for (const std::string& name : spec.stores.names) {
    if (ports_.stores.all().contains(name)) continue;
    throw Error("this Tuner has met no store '", name, "'; it knows ",
                names_of(ports_.stores.all()));
  }
}

void JobQueue::put_away(uint64_t id, JobState state) {
  JobRecord record = ports_.records.job(id);
  if (!record.open() || record.state == state) {
    throw Error("job ", id, " is ", name_of(record.state), " already");
  }
  const std::string why = "on request";
  const bool in_progress = ports_.runner.in_progress(id);
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
  if (in_progress) return ports_.runner.leave();
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
    if (kept) {
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
  const bool begun = ports_.runner.has_begun(id);
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
  ports_.runner.ingest().choose();
}

// The one that was running when the Tuner stopped goes first. Tasks of one that has ended hold its
// files, which it may need itself when it is resumed.
void JobQueue::begin_next() {
  if (!ports_.runner.takes_a_job() || ports_.deletions.forgetting()) return;
  const JobRecord* first = first_that_is(JobState::kRunning, ports_.records);
  if (!first) first = first_that_is(JobState::kQueued, ports_.records);
  if (!first) return;
  JobRecord& record = ports_.records.at(first->id);
  const bool again = record.state == JobState::kRunning;
  record.state = JobState::kRunning;
  if (record.started == 0) record.started = ports_.clock.unix_seconds();
  if (const Status s = ports_.records.save(record); !s.ok()) {
    record.state = JobState::kFailed;
    record.message = s.message();
    record.ended = ports_.clock.unix_seconds();
    return log::error("job {} cannot begin: {}", record.id, s.message());
  }
  ports_.runner.begin(record, again);
}

}  // namespace ndtrain::tuner
