// The job in progress, from its start to its end.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/message_limits.h"
#include "tuner/service/service.h"

namespace ndtrain {

namespace {

constexpr TunerService::Time kAskAgain = std::chrono::seconds(2);

// The first of what waits, at most kKeptAtOnce rows, or one message.
std::vector<Intake::Rows> take_some(std::vector<Intake::Rows>& waiting) {
  size_t messages = 0;
  for (size_t rows = 0; messages < waiting.size(); ++messages) {
    rows += waiting[messages].rows.size();
    if (messages > 0 && rows > TunerService::kKeptAtOnce) break;
  }
  const auto end = waiting.begin() + static_cast<std::ptrdiff_t>(messages);
  std::vector<Intake::Rows> some(std::move_iterator(waiting.begin()), std::move_iterator(end));
  waiting.erase(waiting.begin(), end);
  return some;
}

}  // namespace

void TunerService::start(const ActivePtr& job, size_t lane, std::function<Continuation()> f) {
  job->busy(lane) = true;
  ++tasks_;
  setting_.lanes.start(lane, [this, job, lane, f = std::move(f)]() -> Continuation {
    std::string failure;
    Continuation after;
    try {
      after = f();
    } catch (const SinkAway& away) {
      return [this, job, lane, f, why = std::string(away.what())] { sink_away(job, lane, f, why); };
    } catch (const std::exception& e) {
      failure = e.what();
    }
    return [this, job, lane, failure, after] {
      --tasks_;
      job->busy(lane) = false;
      job->away = job->away && lane != job->again_lane;
      take_lines();
      if (stopping_ && current(job) && !job->keeping && !job->working) active_.reset();
      if (!current(job)) return;
      if (!failure.empty()) return end(job, JobState::kFailed, failure);
      try {
        if (after) after();
      } catch (const std::exception& e) {  // a full disk, say
        end(job, JobState::kFailed, e.what());
      }
    };
  });
}

// The lane stays busy for the job until the task is made again.
void TunerService::sink_away(const ActivePtr& job, size_t lane,
                             const std::function<Continuation()>& f, const std::string& why) {
  --tasks_;
  take_lines();
  if (stopping_) {
    job->busy(lane) = false;
    if (current(job) && !job->keeping && !job->working) active_.reset();
  }
  if (!current(job) || stopping_) return;
  if (!std::exchange(job->away, true)) records_.note(job->id, "waits: " + why);
  job->again = f;
  job->again_lane = lane;
  job->again_at = now() + kAskAgain;
}

void TunerService::ask_again() {
  if (!active_ || !active_->again || now() < active_->again_at) return;
  start(active_, active_->again_lane, std::exchange(active_->again, nullptr));
}

// The one that was running when the Tuner stopped goes first. Tasks of one that has ended hold its
// files, which it may need itself when it is resumed.
void TunerService::start_next() {
  if (active_ || stopping_ || tasks_ > 0 || deletions_.forgetting()) return;
  const auto next = [&](JobState state) -> const JobRecord* {
    for (const auto& [id, record] : records_.all()) {
      if (record.state == state) return &record;
    }
    return nullptr;
  };
  const JobRecord* first = next(JobState::kRunning);
  if (!first) first = next(JobState::kQueued);
  if (!first) return;
  JobRecord& record = records_.at(first->id);
  const bool again = record.state == JobState::kRunning;
  record.state = JobState::kRunning;
  if (record.started == 0) record.started = setting_.clock.unix_seconds();
  if (const Status s = records_.save(record); !s.ok()) {
    record.state = JobState::kFailed;
    record.message = s.message();
    record.ended = setting_.clock.unix_seconds();
    return log::error("job {} cannot begin: {}", record.id, s.message());
  }
  active_ = std::make_shared<Active>();
  active_->id = record.id;
  active_->report.begin(now());
  active_->energy.emplace(setting_.fs);
  records_.note(record.id, again ? "the Tuner goes on with this job" : "begun");
  const ActivePtr job = active_;
  start(job, kJobLane,
        [this, job, spec = record.spec, directory = records_.files(job->id).directory()] {
          job->work = setting_.works.make(job->id, spec, directory, job->progress);
          return [this, job, question = job->work->prepare()] { begin_intake(job, question); };
        });
}

void TunerService::begin_intake(const ActivePtr& job, const JobQuestion& question) {
  const JobSpec& spec = records_.at(job->id).spec;
  IntakeRules rules{.job = question.ask,
                    .row_bytes = question.row_bytes,
                    .manifest = question.manifest,
                    .lost_after = std::chrono::duration_cast<Time>(
                        std::chrono::duration<double>(spec.lost_after)),
                    .allow_missing = spec.allow_missing,
                    .check = question.check,
                    .check_sample = finite_features(question.features)};
  rules.job.set_job(job->id);
  rules.manifest.leave_out = [this](const Digest& photo) { return deletions_.has(photo); };
  job->runs = rules.manifest.runs;
  job->row_bytes = rules.row_bytes;
  job->local = question.local.has_value();
  if (job->local) rules.lost_after = Time::max() / 4;
  job->records = question.records;
  Result<std::optional<KeptManifest>> kept = records(job).load_manifest();
  if (!kept.ok()) return end(job, JobState::kFailed, kept.status().message());
  auto first = records(job).load_first();
  if (!first.ok()) return end(job, JobState::kFailed, first.status().message());
  if (!*kept) first = std::optional<MixedNumerics::First>();  // no row of it has come
  numerics_.begin({.extractor = digest_of(question.ask.extractor()).value_or(Digest()),
                   .features = question.features,
                   .exact = spec.deterministic},
                  std::move(*first));
  for (const std::string& photo : numerics_.photos()) rules.job.add_sample(photo);
  if (*kept) {
    job->intake = std::make_unique<Intake>(std::move(rules), std::move((*kept)->manifest),
                                           std::move((*kept)->stores), now());
    open_sink(job);
  } else if (question.local) {
    const std::vector<std::vector<PhotoClaim>> photos = {*question.local};
    Manifest manifest(photos, rules.manifest);
    job->intake = std::make_unique<Intake>(std::move(rules), std::move(manifest),
                                           std::vector<std::string>{"tuner"}, now());
    open_sink(job);
  } else {
    job->intake = std::make_unique<Intake>(std::move(rules));
  }
  for (const std::string& store : stores_.here()) {
    if (!current(job)) return;
    if (has_part(*job, stores_.record(store))) apply(job, store, job->intake->arrive(now(), store));
  }
  if (current(job)) choose();
}

// Features are worth their way only where they are smaller than what they are made of.
void TunerService::compare_with_photos(const ActivePtr& job) {
  uint64_t photos = 0, bytes = 0;
  for (const Intake::Inventory& i : job->inventories) {
    photos += i.photos.size();
    bytes += i.bytes;
  }
  const JobSpec& spec = records_.at(job->id).spec;
  if (!job->records.empty()) return;
  if (photos == 0 || spec.kind != JobKind::kFinetune || spec.mode != JobMode::kNdpipe) return;
  const double row = static_cast<double>(job->row_bytes) / 1e3;
  const double photo = static_cast<double>(bytes) / static_cast<double>(photos) / 1e3;
  if (row <= photo) return;
  records_.note(
      job->id, fmt::format("the features are larger than the photos ({:.1f} KB against {:.1f} KB): "
                           "--head linear, a later cut (ndtrain model inspect) or --mode typical "
                           "sends less",
                           row, photo));
}

void TunerService::open_sink(const ActivePtr& job) {
  compare_with_photos(job);
  start(job, kKeepLane, [this, job, inventories = std::exchange(job->inventories, {})] {
    for (const Intake::Inventory& i : inventories) demand(job->work->sink().inventory(i));
    auto durable = job->work->sink().open(job->intake->manifest());
    demand(durable.status());
    return [this, job, durable = std::move(*durable)] { sink_opened(job, durable); };
  });
}

// The manifest is kept before any store is asked for anything.
void TunerService::sink_opened(const ActivePtr& job, const std::vector<uint64_t>& durable) {
  JobFiles kept = records(job);
  const Manifest& manifest = job->intake->manifest();
  kept.save_manifest(manifest, job->intake->stores()).or_throw();
  const Result<JobFiles::Closed> closed = kept.closed();
  if (!closed.ok()) return end(job, JobState::kFailed, closed.status().message());
  job->open = true;
  job->report.photos(manifest.size(), durable.size());
  start(job, kJobLane, [this, job, stores = job->intake->stores()] {
    job->work->manifest(job->intake->manifest(), stores);
    return [this, job] {
      job->introduced = true;
      pump_work(job);
    };
  });
  std::vector<uint64_t> here = durable;
  if (job->local) {  // made when its run is trained on
    here.resize(manifest.size());
    std::iota(here.begin(), here.end(), uint64_t{0});
  }
  apply(job, "", job->intake->begin(here, closed->absent));
}

// Why the store cannot be counted in; "" when it is.
std::string TunerService::admit(const ActivePtr& job, const Intake::Inventory& i) {
  StoreRecord& store = stores_.record(i.store);
  store.photos = i.photos.size();
  stores_.keep(store);
  const MixedNumerics::Verdict v = numerics_.admit(i.store, store.numerics, i.sample);
  if (!v.note.empty()) records_.note(job->id, v.note);
  if (!v.first) return v.refusal;
  return records(job).save_first(numerics_.first()).message();
}

void TunerService::apply(ActivePtr job, const std::string& store, Intake::Actions a) {
  if (!current(job)) return;
  for (const std::string& line : a.notes) records_.note(job->id, line);
  for (auto& i : a.inventories) {
    if (const std::string why = admit(job, i); !why.empty()) {
      return end(job, JobState::kFailed, why);
    }
    i.sample.clear();
    holders_.set(i.store, i.photos);
    std::erase_if(i.photos, [&](const PhotoClaim& p) { return deletions_.has(p.digest); });
    job->inventories.push_back(std::move(i));
  }
  for (auto& rows : a.keep) job->rows.push_back(std::move(rows));
  for (const uint32_t run : a.complete) {
    if (const Status s = close_run(job, run); !s.ok()) {
      return end(job, JobState::kFailed, s.message());
    }
  }
  for (auto& [name, message] : a.send) {
    if (message.has_job()) {
      message.mutable_job()->set_serial(++asked_[name]);
      if (!numerics_.asks(stores_.record(name).numerics)) message.mutable_job()->clear_sample();
    }
    stores_.send(name, std::move(message));
  }
  if (a.failed) return end(job, JobState::kFailed, *a.failed);
  if (a.manifest_made) open_sink(job);
  if (a.end_session) stores_.refuse(store, *a.end_session);
  if (!current(job)) return;
  choose();
  if (!current(job)) return;
  pump_keep(job);
  pump_work(job);
}

// What a run was closed without stays out, whoever comes back later.
Status TunerService::close_run(const ActivePtr& job, uint32_t run) {
  const std::vector<uint64_t> absent = job->intake->absent(run);
  if (const Status s = records(job).close_run(run, absent); !s.ok()) return s;
  job->report.complete(now(), run);
  job->complete.push_back(run);
  return {};
}

void TunerService::pump_keep(const ActivePtr& job) {
  if (!job->open || job->keeping || (job->rows.empty() && job->inventories.empty())) return;
  start(job, kKeepLane,
        [this, job, inventories = std::exchange(job->inventories, {}),
         rows = take_some(job->rows)]() -> Continuation {
          for (const Intake::Inventory& i : inventories) demand(job->work->sink().inventory(i));
          const auto kept_now = job->work->sink().keep(rows);
          demand(kept_now.status());
          const std::vector<Intake::BadRow>& bad = *kept_now;
          std::vector<std::pair<uint64_t, std::vector<Intake::BadRow>>> kept;
          uint64_t n = 0;
          for (const Intake::Rows& r : rows) {
            auto& mine = kept.emplace_back(r.ticket, std::vector<Intake::BadRow>()).second;
            n += r.rows.size();
            for (const auto& [number, bytes] : r.rows) {
              const auto b = std::ranges::find(bad, number, &Intake::BadRow::number);
              if (b != bad.end()) mine.push_back(*b);
            }
          }
          return [this, job, kept = std::move(kept), n] {
            job->report.kept(n);
            for (const auto& [ticket, mine] : kept) {
              if (current(job)) apply(job, "", job->intake->durable(ticket, mine));
            }
          };
        });
}

void TunerService::pump_work(const ActivePtr& job) {
  if (job->working || !job->introduced || stopping_) return;  // run 2 is not for half a run 1
  if (!job->complete.empty()) {
    const uint32_t run = job->complete.front();
    job->complete.pop_front();
    start(job, kJobLane, [this, job, run, begun = now()] {
      const bool whole = job->work->run(run);
      return [this, job, run, begun, whole] {
        if (!whole) return;  // stops, and goes on after the next start
        job->report.work(run > 0 ? "run " + std::to_string(run) : "prepare", begun, now());
        if (run < job->runs) return pump_work(job);
        start(job, kJobLane, [this, job] {
          return [this, job, outcome = job->work->finish()] { finished(job, outcome); };
        });
      };
    });
  }
}

// Why the job's version is not put in force; "": it is. A rule's word counts for what it compared
// with, which somebody may have replaced meanwhile.
std::string TunerService::why_it_waits(uint64_t job, const JobOutcome& outcome) {
  const Promote promote = records_.at(job).spec.promote;
  if (promote == Promote::kNever) return "it was submitted as a candidate";
  const std::optional<PublishedModel> now = setting_.versions.in_force();
  if (promote == Promote::kAlways || !now) return "";
  if (!outcome.instead_of) return outcome.why.empty() ? "the rule says nothing of it" : outcome.why;
  if (now->version == *outcome.instead_of || now->job == job) return "";
  return fmt::format("version {} was put in force meanwhile, with which it was not compared ({})",
                     now->version, outcome.figures);
}

// A killed Tuner that comes back here finds the version that it has published before.
void TunerService::finished(const ActivePtr& job, const JobOutcome& outcome) {
  if (outcome.again) {  // it is running still, so that it is the next to begin
    past_ = total_counts();
    active_.reset();
    return;
  }
  job->report.end(now(), job->energy->take());
  Json result = parse_json(outcome.result);
  const LeftOut without = left_out(*job);
  result.update(parse_json(without.json));
  result["report"] = parse_json(job->report.json());
  std::string message;
  if (outcome.model) {
    PublishedModel model = *outcome.model;
    model.job = job->id;
    const std::string why = why_it_waits(job->id, outcome);
    const PublishedModel published = models_.publish(model, why.empty());
    const std::optional<PublishedModel> in_force = setting_.versions.in_force();
    const bool candidate = !in_force || in_force->version != published.version;
    result["version"] = published.version;
    result["content"] = to_hex(published.content);
    result["in_force"] = !candidate;
    records_.note(job->id,
                  "published as " + text_of(published) + (candidate ? ", a candidate" : ""));
    if (candidate) {
      message = fmt::format(
          "{} is not in force: {}; ndtrain model promote {} puts it in force", text_of(published),
          why.empty() ? "another was put in force meanwhile" : why, published.version);
    }
  }
  const JobFiles kept = records_.files(job->id);
  publish(setting_.fs, join(kept.directory(), "trace.json"), job->report.trace()).or_throw();
  records_.at(job->id).result = json_text(result);
  if (!without.text.empty()) message += (message.empty() ? "" : "; ") + without.text;
  end(job, JobState::kDone, message);
  setting_.lanes.start(kJobLane, [job]() -> Continuation {
    try {
      job->work->discard();
    } catch (const Error& e) {
      log::warn("job {}: {}", job->id, e.what());
    }
    return nullptr;
  });
}

void TunerService::end(ActivePtr job, JobState state, const std::string& message) {
  if (!current(job)) return;
  JobRecord& record = records_.at(job->id);
  record.state = state;
  record.message = message;
  record.ended = setting_.clock.unix_seconds();
  if (const Status s = records_.save(record); !s.ok()) {  // the next Tuner goes on with it
    log::error("job {}: that it is {} cannot be kept: {}", job->id, name_of(state), s.message());
  }
  leave(std::move(job));
}

// It is as its record says.
void TunerService::leave(ActivePtr job) {
  const JobRecord& record = records_.at(job->id);
  take_lines();
  job->progress.interrupt();
  records_.note(job->id, std::string(name_of(record.state)) +
                             (record.message.empty() ? "" : ": " + record.message));
  past_ = total_counts();
  start_now_.erase(job->id);
  job->again = nullptr;  // it holds the job
  active_.reset();
  wire::ToStore m;
  m.mutable_job_end()->set_job(job->id);
  m.mutable_job_end()->set_done(record.state == JobState::kDone);
  m.mutable_job_end()->set_reason(wire::as_text(record.message));
  for (const std::string& store : stores_.here()) stores_.send(store, m);
}

}  // namespace ndtrain
