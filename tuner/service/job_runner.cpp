#include "tuner/service/job_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/wire/message_limits.h"
#include "tuner/service/job_result.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr JobRunner::Time kAskAgain = std::chrono::seconds(2);

void note_lines(JobRecords& records, const ActivePtr& job) {
  if (!job) return;
  for (const std::string& line : job->progress.take_lines()) records.note(job->id, line);
}

}  // namespace

JobRunner::JobRunner(const Ports& ports)
    : ports_(ports),
      ingest_({.clock = ports.clock,
               .records = ports.records,
               .stores = ports.stores,
               .holders = ports.holders,
               .trash = ports.trash,
               .control = *this}) {}

void JobRunner::start(const ActivePtr& job, size_t lane, std::function<Continuation()> f) {
  job->busy(lane) = true;
  ++tasks_;
  ports_.lanes.start(lane, [this, job, lane, f = std::move(f)]() -> Continuation {
    std::string failure;
    Continuation after;
    try {
      after = f();
    } catch (const SinkUnavailable& away) {
      return [this, job, lane, f, why = std::string(away.what())] { sink_away(job, lane, f, why); };
    } catch (const std::exception& e) {
      failure = e.what();
    }
    return [this, job, lane, failure, after] { ended(job, lane, failure, after); };
  });
}

void JobRunner::ended(const ActivePtr& job, size_t lane, const std::string& failure,
                      const Continuation& after) {
  --tasks_;
  job->busy(lane) = false;
  job->away = job->away && lane != job->again_lane;
  note_lines(ports_.records, active_);
  if (stopping_ && job == active_ && !job->keeping && !job->working) active_.reset();
  if (job != active_) return;
  if (!failure.empty()) return fail(job, failure);
  try {
    if (after) after();
  } catch (const std::exception& e) {  // a full disk, say
    fail(job, e.what());
  }
}

// The lane stays busy for the job until the task is made again.
void JobRunner::sink_away(const ActivePtr& job, size_t lane, const std::function<Continuation()>& f,
                          const std::string& why) {
  --tasks_;
  note_lines(ports_.records, active_);
  if (stopping_) {
    job->busy(lane) = false;
    if (job == active_ && !job->keeping && !job->working) active_.reset();
  }
  if (job != active_ || stopping_) return;
  if (!std::exchange(job->away, true)) ports_.records.note(job->id, "waits: " + why);
  job->again = f;
  job->again_lane = lane;
  job->again_at = now() + kAskAgain;
}

void JobRunner::begin(const JobRecord& record, bool again) {
  const ActivePtr job = active_ = std::make_shared<ActiveJob>(record);
  job->report.begin(now());
  job->energy.emplace(ports_.fs);
  ports_.records.note(job->id, again ? "the Tuner goes on with this job" : "begun");
  start(job, kJobLane, [this, job, directory = ports_.records.files(job->id).directory()] {
    job->work = ports_.works.make(job->id, job->spec, directory, job->progress);
    return [this, job, request = job->work->prepare()] { ingest_.begin(job, request); };
  });
}

void JobRunner::tick() {
  ingest_.tick();
  note_lines(ports_.records, active_);
  if (!active_ || !active_->again || now() < active_->again_at) return;
  start(active_, active_->again_lane, std::exchange(active_->again, nullptr));
}

JobRunner::Time JobRunner::next() const {
  const Time again = active_ && active_->again ? active_->again_at : Time::max();
  return std::min(again, ingest_.next());
}

void JobRunner::work_on_runs(const ActivePtr& job) {
  if (job->working || !job->introduced || stopping_) return;  // run 2 is not for half a run 1
  if (job->complete.empty()) return;
  const uint32_t run = job->complete.front();
  job->complete.pop_front();
  job->report.waited(job->energy->take());
  start(job, kJobLane, [this, job, run, begun = now()] {
    const bool whole = job->work->run(run);
    return [this, job, run, begun, whole] {
      if (!whole) return;  // stops, and goes on after the next start
      job->report.work(run > 0 ? "run " + std::to_string(run) : "prepare", begun, now(),
                       job->energy->take());
      if (run < job->runs) return work_on_runs(job);
      start(job, kJobLane, [this, job, since = now()] {
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
    past_ = total_counts();
    active_.reset();
    return;
  }
  job->report.end(now());
  Json result = parse_json(outcome.result);
  MissingData missing;
  if (!job->local) missing = missing_data(job->spec, *job->ingest, ports_.stores, ports_.trash);
  result.update(parse_json(missing.json));
  result["report"] = parse_json(job->report.json());
  std::string message = outcome.model ? publish(job, outcome, result) : "";
  const std::string trace = join(ports_.records.files(job->id).directory(), "trace.json");
  ndtrain::publish(ports_.fs, trace, job->report.trace()).or_throw();
  ports_.records.at(job->id).result = json_text(result);
  if (!missing.text.empty()) message += (message.empty() ? "" : "; ") + missing.text;
  end(job, JobState::kDone, message);
  ++tasks_;  // what is deleted meanwhile is not left behind: see PhotoDeletions
  ports_.lanes.start(kJobLane, [this, job]() -> Continuation {
    try {
      job->work->discard([this] { return stopping_.load(); });
    } catch (const Error& e) {
      log::warn("job {}: {}", job->id, e.what());
    }
    return [this] { --tasks_; };
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

void JobRunner::end(const ActivePtr& job, JobState state, const std::string& message) {
  if (job != active_) return;
  JobRecord& record = ports_.records.at(job->id);
  record.state = state;
  record.message = message;
  record.ended = ports_.clock.unix_seconds();
  if (const Status s = ports_.records.save(record); !s.ok()) {  // the next Tuner goes on with it
    log::error("job {}: that it is {} cannot be kept: {}", job->id, name_of(state), s.message());
  }
  leave();
}

void JobRunner::leave() {
  const ActivePtr job = active_;
  JobRecord& record = ports_.records.at(job->id);
  note_lines(ports_.records, job);
  job->progress.interrupt();
  ports_.records.note(job->id, std::string(name_of(record.state)) +
                                   (record.message.empty() ? "" : ": " + record.message));
  past_ = total_counts();
  record.start_now = false;
  job->again = nullptr;  // it holds the job
  active_.reset();
  wire::ToStore m;
  m.mutable_job_end()->set_job(job->id);
  m.mutable_job_end()->set_done(record.state == JobState::kDone);
  m.mutable_job_end()->set_reason(wire::as_text(record.message));
  for (const std::string& store : ports_.stores.here()) ports_.stores.send(store, m);
}

void JobRunner::model_bytes_sent(uint64_t bytes) {
  if (active_) {
    active_->report.model_part(bytes);
  } else {
    past_.model_bytes += bytes;
  }
}

std::string JobRunner::doing() const {
  if (!active_) return "";
  return active_->wait.waits() ? active_->wait.text() : active_->progress.now();
}

const StoreChoice* JobRunner::waits_for(uint64_t job) const {
  return in_progress(job) && active_->wait.waits() ? &active_->wait.choice() : nullptr;
}

JobReport::Counts JobRunner::counts() const {
  return active_ ? active_->report.counts() : JobReport::Counts();
}

JobReport::Counts JobRunner::total_counts() const {
  JobReport::Counts all = past_, now = counts();
  all.row_bytes += now.row_bytes;
  all.model_bytes += now.model_bytes;
  return all;
}

void JobRunner::stop() {
  stopping_ = true;
  if (!active_) return;
  active_->progress.interrupt();
  if (std::exchange(active_->again, nullptr)) active_->busy(active_->again_lane) = false;
  if (!active_->working && !active_->keeping) active_.reset();
}

}  // namespace ndtrain::tuner
