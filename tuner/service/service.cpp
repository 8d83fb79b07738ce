#include "tuner/service/service.h"

#include <algorithm>

#include "framework/core/hash.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "framework/core/text.h"
#include "ndp/store/disk_budget.h"
#include "ndp/wire/message_limits.h"

namespace ndtrain {

TunerService::TunerService(const Setting& setting, TunerIdentity me, Time heartbeat,
                           uint64_t window)
    : setting_(setting),
      stores_({setting.fs, setting.clock, setting.state.path(), setting.links, setting.ticket_key},
              TunerSessions(std::move(me), heartbeat, window), *this),
      records_(setting.fs, setting.state.file("jobs")),
      deletions_({.fs = setting.fs,
                  .directory = setting.state.path(),
                  .clock = setting.clock,
                  .lanes = setting.lanes,
                  .stores = stores_,
                  .records = records_,
                  .uploads = setting.uploads,
                  .idle = [this] { return idle(); }}),
      uploads_({.clock = setting.clock,
                .lanes = setting.lanes,
                .stores = stores_,
                .records = records_,
                .deletions = deletions_,
                .holders = holders_,
                .versions = setting.versions,
                .uploads = setting.uploads,
                .audit = setting.audit}),
      models_({.clock = setting.clock,
               .lanes = setting.lanes,
               .stores = stores_,
               .records = records_,
               .models = setting.models,
               .versions = setting.versions,
               .audit = setting.audit,
               .idle = [this] { return idle(); },
               .sent_for = [this](uint64_t bytes) { model_bytes_sent(bytes); }}) {
  tick();
}

JobFiles TunerService::records(const ActivePtr& job) const {
  const std::string directory = records_.files(job->id).directory();
  return {setting_.fs, job->records.empty() ? directory : join(directory, job->records)};
}

void TunerService::take_lines() {
  if (!active_) return;
  for (const std::string& line : active_->progress.take_lines()) records_.note(active_->id, line);
}

void TunerService::tick() {
  stores_.tick();
  if (active_ && active_->intake) apply(active_, "", active_->intake->tick(now()));
  take_lines();
  models_.collect();
  ask_again();
  deletions_.pump();  // before another job begins
  start_next();
  uploads_.pump();
}

TunerService::Time TunerService::next() const {
  Time next = stores_.next();
  if (active_ && active_->intake) next = std::min(next, active_->intake->next());
  if (active_ && active_->again) next = std::min(next, active_->again_at);
  if (active_ && !active_->said.empty()) next = std::min(next, now() + kLook);
  return std::min({next, uploads_.next(), deletions_.next()});
}

void TunerService::arrived(const wire::Hello& hello) {
  deletions_.greet(hello);  // before it is asked what it holds
  models_.publish_to(hello.store());
  const StoreRecord& store = stores_.record(hello.store());
  if (active_ && has_part(*active_, store)) {
    apply(active_, store.name, active_->intake->arrive(now(), store.name));
  }
}

void TunerService::left(const std::string& name, const std::string& reason) {
  if (!active_ || !active_->intake) return;
  records_.note(active_->id, "store " + name + " has left: " + reason);
  apply(active_, name, active_->intake->leave(now(), name));
}

void TunerService::message(const std::string& name, wire::FromStore message) {
  if (message.has_model_wanted()) {
    models_.wanted(name, message.model_wanted());
  } else if (message.has_in_force()) {
    models_.in_force(name, message.in_force().version());
  } else if (message.has_uploads()) {
    uploads_.take(name, message.uploads());
  } else if (message.has_space()) {
    uploads_.take_space(name, message.space());
  } else if (message.has_deleted()) {
    deletions_.let_go(name, message.deleted().count());
  } else if (message.has_leaving()) {
    stores_.refuse(name, "the store stops: " + message.leaving().reason());
  } else if (active_ && active_->intake) {
    // What was under way when it was asked again is about what it was asked before.
    if (message.answers() > 0 && message.answers() != asked_[name]) return;
    if (message.has_rows()) {
      active_->report.rows(now(), name, message.rows().run(), message.rows().rows().size());
    }
    if (message.has_inventory() && message.inventory().last()) {
      active_->report.surveyed(name, message.inventory().survey_seconds());
    }
    if (message.has_run_done()) active_->report.run_done(name, message.run_done());
    apply(active_, name, active_->intake->message(now(), name, std::move(message)));
  }
}

uint64_t TunerService::submit(const JobSpec& spec) {
  if (!spec.model.empty() && !setting_.models.has(digest_from_hex(spec.model))) {
    throw Error("model ", spec.model.substr(0, 12), " is not on the Tuner; send it first");
  }
  if (spec.model.empty() && !setting_.versions.in_force()) {
    throw Error("no version is in force yet: a ", name_of(spec.kind),
                " needs a fine-tuning before it, or a model (-m)");
  }
  check_stores(spec);
  JobRecord record;
  record.id = records_.all().empty() ? 1 : records_.all().rbegin()->first + 1;
  for (const PublishedModel& m : setting_.versions.all()) {  // also of jobs that were removed
    record.id = std::max(record.id, m.job + 1);
  }
  record.spec = spec;
  record.submitted = setting_.clock.unix_seconds();
  records_.save(record).or_throw();
  records_.put(record);
  start_next();
  return record.id;
}

void TunerService::cancel(uint64_t id) { put_away(id, JobState::kCancelled); }
void TunerService::pause(uint64_t id) { put_away(id, JobState::kPaused); }

void TunerService::put_away(uint64_t id, JobState state) {
  JobRecord record = records_.job(id);
  if (!record.open() || record.state == state) {
    throw Error("job ", id, " is ", name_of(record.state), " already");
  }
  const std::string why = "on request";
  const bool in_progress = active_ && active_->id == id;
  if (in_progress) record.message = why;
  record.ended = state == JobState::kPaused ? 0 : setting_.clock.unix_seconds();
  const JobState before = std::exchange(record.state, state);
  if (const Status s = records_.save(record); !s.ok()) {
    throw Error("job ", id, " is ", name_of(before), " as before: that it is ", name_of(state),
                " cannot be kept: ", s.message(),
                "; make room on the Tuner's volume and say it again");
  }
  records_.put(record);
  start_now_.erase(id);
  if (in_progress) return leave(active_);
  records_.note(id, std::string(name_of(state)) + ": " + why);
}

void TunerService::resume(uint64_t id, std::string_view changes) {
  JobRecord record = records_.job(id);
  if (record.open() && record.state != JobState::kPaused) {
    throw Error("job ", id, " is ", name_of(record.state), " already");
  }
  if (record.state == JobState::kDone) throw Error("job ", id, " is done");
  if (!record.readable) throw Error("job ", id, ": ", record.message, "; submit it anew");
  const std::string before = record.spec.text();
  const StoresMeant stores = record.spec.stores;
  record.spec = changed(record.spec, changes);
  if (record.spec.stores != stores) {
    check_stores(record.spec);
    const std::optional<KeptManifest> kept = records_.files(id).load_manifest().or_throw();
    if (kept) {
      throw Error("job ", id, " has its photos already, on ", kept->stores.size(),
                  kept->stores.size() == 1 ? " store" : " stores",
                  ": for other stores submit another job");
    }
  }
  record.state = JobState::kQueued;
  record.message.clear();
  record.ended = 0;
  records_.save(record).or_throw();
  records_.put(record);
  records_.note(id,
                "resumed" + (record.spec.text() == before ? "" : " with " + std::string(changes)));
  start_next();
}

std::string TunerService::doing() const {
  if (!active_) return "";
  return active_->said.empty() ? active_->progress.now() : active_->said;
}

JobReport::Counts TunerService::counts() const {
  return active_ ? active_->report.counts() : JobReport::Counts();
}

JobReport::Counts TunerService::total_counts() const {
  JobReport::Counts all = past_, now = counts();
  all.row_bytes += now.row_bytes;
  all.model_bytes += now.model_bytes;
  return all;
}

void TunerService::model_bytes_sent(uint64_t bytes) {
  if (active_) {
    active_->report.model_part(bytes);
  } else {
    past_.model_bytes += bytes;
  }
}

int64_t TunerService::room() const {
  return DiskBudget::default_room(setting_.fs, setting_.state.path()).or_throw();
}

void TunerService::stop() {
  stopping_ = true;
  deletions_.stop();
  uploads_.stop();
  models_.stop();
  if (!active_) return;
  active_->progress.interrupt();
  if (std::exchange(active_->again, nullptr)) active_->busy(active_->again_lane) = false;
  if (!active_->working && !active_->keeping) active_.reset();
}

}  // namespace ndtrain
