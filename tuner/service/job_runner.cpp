#include "tuner/service/job_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/wire/message_limits.h"
#include "tuner/jobs/job_prediction.h"
#include "tuner/service/job_plan.h"
#include "tuner/service/job_result.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr JobRunner::Time kAskAgain = std::chrono::seconds(2);

void add(JobReport::Counts& to, const JobReport::Counts& more) {
  to.row_bytes += more.row_bytes;
  to.model_bytes += more.model_bytes;
  to.network_s += more.network_s;
}

// The first that none has.
size_t free_slot(const std::vector<ActivePtr>& jobs) {
  size_t slot = 0;
  while (std::ranges::find(jobs, slot, &ActiveJob::slot) != jobs.end()) ++slot;
  return slot;
}

}  // namespace

JobRunner::JobRunner(const Ports& ports)
    : ports_(ports),
      ingest_({.clock = ports.clock,
               .records = ports.records,
               .stores = ports.stores,
               .holders = ports.holders,
               .trash = ports.trash,
               .control = *this,
               .audit = ports.audit,
               .audit_seed = ports.audit_seed,
               .memory = ports.memory}),
      room_(ports.fs, ports.clock, ports.records.directory()) {}

JobRunner::~JobRunner() {
  for (const ActivePtr& job : jobs_) job->again = nullptr;  // it holds the job
}

std::vector<ActivePtr> JobRunner::in_progress() const {
  std::vector<ActivePtr> all;
  std::ranges::copy_if(jobs_, std::back_inserter(all), [](const auto& job) { return !job->over; });
  return all;
}

ActivePtr JobRunner::find(uint64_t id) const {
  const auto at = std::ranges::find_if(
      jobs_, [id](const ActivePtr& job) { return job->id == id && !job->over; });
  return at == jobs_.end() ? nullptr : *at;
}

void JobRunner::note_lines(const ActivePtr& job) {
  for (const std::string& line : job->progress.take_lines()) ports_.records.note(job->id, line);
}

void JobRunner::start(const ActivePtr& job, size_t lane, std::function<Continuation()> f) {
  job->busy(lane) = true;
  ++job->tasks;
  ports_.lanes.start(lane, [this, job, lane, f = std::move(f)]() -> Continuation {
    std::string failure;
    Continuation after;
    try {
      after = f();
    } catch (const SinkUnavailable& away) {
      return [this, job, lane, f, why = std::string(away.what())] { sink_away(job, lane, f, why); };
    } catch (const std::bad_alloc&) {
      failure = "the Tuner is out of memory; resume the job with a smaller --memory";
    } catch (const std::exception& e) {
      failure = e.what();
    }
    return [this, job, lane, failure, after] { ended(job, lane, failure, after); };
  });
}

void JobRunner::task_is_back(const ActivePtr& job) {
  if (--job->tasks == 0 && job->over) std::erase(jobs_, job);
}

void JobRunner::ended(const ActivePtr& job, size_t lane, const std::string& failure,
                      const Continuation& after) {
  job->busy(lane) = false;
  if (lane == job->again_lane) job->away.clear();
  task_is_back(job);
  if (job->over) return;
  note_lines(job);
  if (stopping_ && !job->keeping && !job->working) return put_down(job);
  if (!failure.empty()) return fail_or_wait(job, failure);
  try {
    if (after) after();
  } catch (const std::exception& e) {  // a full disk, say
    fail_or_wait(job, e.what());
  }
}

// It is running still, so that it begins again where it was.
void JobRunner::fail_or_wait(const ActivePtr& job, const std::string& why) {
  if (job->over) return;
  if (!wait_for_room(job->id, why)) return fail(job, why);
  note_lines(job);
  job->progress.interrupt();
  add(past_, job->report.counts());
  dismiss(job, false, room_.text(job->id));
}

bool JobRunner::wait_for_room(uint64_t job, const std::string& why) {
  if (!room_.wait(job, why)) return false;
  ports_.records.note(job, room_.text(job));
  return true;
}

// The lane stays busy for the job until the task is made again.
void JobRunner::sink_away(const ActivePtr& job, size_t lane, const std::function<Continuation()>& f,
                          const std::string& why) {
  task_is_back(job);
  if (job->over) return;
  note_lines(job);
  if (stopping_) {
    job->busy(lane) = false;
    if (!job->keeping && !job->working) put_down(job);
    return;
  }
  if (job->away.empty()) ports_.records.note(job->id, "waits: " + why);
  job->away = why;
  job->again = f;
  job->again_lane = lane;
  job->again_at = now() + kAskAgain;
}

void JobRunner::begin(const JobRecord& record, bool again) {
  const auto job = std::make_shared<ActiveJob>(record, free_slot(jobs_), samples_);
  jobs_.push_back(job);
  job->report.begin(now());
  job->energy.emplace(ports_.fs);
  ports_.records.note(job->id, again ? "the Tuner goes on with this job" : "begun");
  JobFiles files = ports_.records.files(job->id);
  start(job, job->job_lane(), [this, job, files, anew = record.wrong_rows]() mutable {
    if (anew) files.begin_anew("rows that stores had sent were wrong").or_throw();
    job->work = ports_.works.make(job->id, job->spec, files.directory(), job->progress);
    return [this, job, request = job->work->prepare()] {
      forget_wrong_rows(job);
      ingest_.begin(job, request);
    };
  });
}

// They are gone. Where that cannot be kept, the next Tuner begins the job anew once more.
void JobRunner::forget_wrong_rows(const ActivePtr& job) {
  JobRecord& record = ports_.records.at(job->id);
  if (!std::exchange(record.wrong_rows, false)) return;
  if (const Status s = ports_.records.save(record); !s.ok()) log::warn("{}", s.message());
}

void JobRunner::tick() {
  ingest_.tick();
  room_.tick();
  for (const ActivePtr& job : in_progress()) {
    note_lines(job);
    if (!job->again || now() < job->again_at) continue;
    start(job, job->again_lane, std::exchange(job->again, nullptr));
  }
}

JobRunner::Time JobRunner::next() const {
  Time next = std::min(ingest_.next(), room_.next());
  for (const ActivePtr& job : in_progress()) {
    if (job->again) next = std::min(next, job->again_at);
  }
  return next;
}

void JobRunner::work_on_runs(const ActivePtr& job) {
  if (job->working || !job->introduced || stopping_) return;  // run 2 is not for half a run 1
  if (job->complete.empty()) return;
  const uint32_t run = job->complete.front();
  job->complete.pop_front();
  job->report.waited(job->energy->take());
  start(job, job->job_lane(), [this, job, run, begun = now()] {
    const bool whole = job->work->run(run);
    return [this, job, run, begun, whole] {
      if (!whole) return;  // stops, and goes on after the next start
      job->report.work(run > 0 ? "run " + std::to_string(run) : "prepare", begun, now(),
                       job->energy->take());
      if (run < job->runs) return work_on_runs(job);
      start(job, job->job_lane(), [this, job, since = now()] {
        return [this, job, since, outcome = job->work->finish()] {
          job->report.work("finish", since, now(), job->energy->take());
          finished(job, outcome);
        };
      });
    };
  });
}

// A killed Tuner that comes back here finds the version that it has published before.
void JobRunner::finished(const ActivePtr& job, const JobOutcome& outcome) {
  if (outcome.again) {  // it is running still, so that it is the next to begin
    add(past_, job->report.counts());
    return put_down(job);
  }
  job->report.end(now());
  Json result = parse_json(outcome.result);
  MissingData missing;
  if (!job->local) missing = missing_data(job->spec, *job->ingest, ports_.stores, ports_.trash);
  result.update(parse_json(missing.json));
  result["report"] = parse_json(job->report.json());
  const std::vector<std::string> took =
      job->local ? std::vector<std::string>() : job->ingest->stores();
  Json predicted = prediction_of_done(ports_.records.job(job->id), result, took, ports_.stores,
                                      ports_.records.all());
  if (predicted.empty()) result["report"]["not_predicted"] = why_unpredicted(job->spec);
  result["report"]["predicted"] = std::move(predicted);
  std::string message = outcome.model ? publish(job, outcome, result) : "";
  JobFiles files = ports_.records.files(job->id);
  const std::string trace = join(files.directory(), "trace.json");
  ndtrain::publish(ports_.fs, trace, job->report.trace()).or_throw();
  if (!job->local) ingest_.keep_quarantine(job).or_throw();
  ports_.records.at(job->id).result = json_text(result);
  if (!missing.text.empty()) message += (message.empty() ? "" : "; ") + missing.text;
  ++job->tasks;  // what is deleted while it discards is not left behind: see PhotoDeletions
  const bool kept = end(job, JobState::kDone, message);
  ports_.lanes.start(job->job_lane(), [this, job, files, kept]() mutable -> Continuation {
    try {
      job->work->discard([this] { return stopping_.load(); });
      if (kept) files.remove_rows();  // else the next Tuner goes on with the job
    } catch (const Error& e) {
      log::warn("job {}: {}", job->id, e.what());
    }
    return [this, job] { task_is_back(job); };
  });
}

// Into `result`; why the version is not in force, "" when it is.
std::string JobRunner::publish(const ActivePtr& job, const JobOutcome& outcome, Json& result) {
  PublishedModel model = *outcome.model;
  model.job = job->id;
  const std::string why =
      why_it_waits(job->id, job->spec.promote, outcome, ports_.versions.in_force(model.task));
  const PublishedModel published = ports_.models.publish(model, why.empty());
  const std::optional<PublishedModel> in_force = ports_.versions.in_force(model.task);
  const bool candidate = !in_force || in_force->version != published.version;
  result["version"] = published.version;
  result["content"] = to_hex(published.content);
  result["in_force"] = !candidate;
  const std::string line = "published as " + text_of(published);
  ports_.records.note(job->id, line + (candidate ? ", a candidate" : ""));
  if (!candidate) return "";
  return fmt::format("{} is not in force: {}; ndtrain model promote {} puts it in force",
                     text_of(published), why.empty() ? "another was put in force meanwhile" : why,
                     published.version);
}

bool JobRunner::end(const ActivePtr& job, JobState state, const std::string& message) {
  if (job->over) return false;
  JobRecord& record = ports_.records.at(job->id);
  record.state = state;
  record.message = message;
  record.ended = ports_.clock.unix_seconds();
  const Status s = ports_.records.save(record);
  if (!s.ok()) {
    log::error("job {}: that it is {} cannot be kept: {}", job->id, name_of(state), s.message());
  }
  leave(job);
  return s.ok();
}

void JobRunner::leave(uint64_t id) { leave(find(id)); }

void JobRunner::leave(const ActivePtr& job) {
  JobRecord& record = ports_.records.at(job->id);
  note_lines(job);
  job->progress.interrupt();
  ports_.records.note(job->id, std::string(name_of(record.state)) +
                                   (record.message.empty() ? "" : ": " + record.message));
  add(past_, job->report.counts());
  record.start_now = false;
  dismiss(job, record.state == JobState::kDone, record.message);
}

void JobRunner::dismiss(const ActivePtr& job, bool done, const std::string& why) {
  put_down(job);
  wire::ToStore m;
  m.mutable_job_end()->set_job(job->id);
  m.mutable_job_end()->set_done(done);
  m.mutable_job_end()->set_reason(wire::as_text(why));
  for (const std::string& store : ports_.stores.here()) ports_.stores.send(store, m);
  ingest_.over(job);
}

void JobRunner::put_down(const ActivePtr& job) {
  job->over = true;
  job->again = nullptr;  // it holds the job
  if (job->tasks == 0) std::erase(jobs_, ActivePtr(job));
}

void JobRunner::start_now(uint64_t id) {
  if (const ActivePtr job = find(id)) ingest_.choose(job);
}

void JobRunner::model_bytes_sent(uint64_t bytes) {
  const std::vector<ActivePtr> all = in_progress();
  if (all.empty()) {
    past_.model_bytes += bytes;
  } else {
    all.front()->report.model_part(bytes);
  }
}

std::string JobRunner::doing(uint64_t id) const {
  const ActivePtr job = find(id);
  if (!job) return room_.text(id);
  if (!job->away.empty()) return "waits: " + job->away;
  return job->wait.waits() ? job->wait.text() : job->progress.now();
}

const StoreChoice* JobRunner::waits_for(uint64_t id) const {
  const ActivePtr job = find(id);
  return job && job->wait.waits() ? &job->wait.choice() : nullptr;
}

size_t JobRunner::rows_waiting() const {
  size_t rows = 0;
  for (const ActivePtr& job : in_progress()) {
    for (const RowIngest::Rows& r : job->rows) rows += r.rows.size();
  }
  return rows;
}

JobReport::Counts JobRunner::total_counts() const {
  JobReport::Counts all = past_;
  for (const ActivePtr& job : in_progress()) add(all, job->report.counts());
  return all;
}

void JobRunner::stop() {
  stopping_ = true;
  for (const ActivePtr& job : in_progress()) {
    job->progress.interrupt();
    if (std::exchange(job->again, nullptr)) job->busy(job->again_lane) = false;
    if (!job->working && !job->keeping) put_down(job);
  }
}

}  // namespace ndtrain::tuner
