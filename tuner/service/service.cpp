#include "tuner/service/service.h"

#include <algorithm>
#include <charconv>

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
      sessions_(std::move(me), heartbeat, window),
      known_(setting.fs, setting.state.path()),
      ways_(setting.models),
      deletions_(setting.fs, setting.state.path()) {
  know_stores();
  const std::string directory = setting_.state.file("jobs");
  setting_.fs.make_directories(directory).or_throw();
  for (const std::string& name : setting_.fs.list(directory).or_throw()) {
    uint64_t id = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    Result<JobRecord> record = files(id).load();
    if (record.status().code() == Code::kNotFound) continue;  // killed before it was accepted
    if (record.ok() && record->id != id) {
      record = Status(Code::kCorrupt,
                      files(id).directory() + ": is of job " + std::to_string(record->id));
    }
    jobs_[id] = record.ok() ? *record : unreadable(id, record.status());
  }
  tick();
}

// Its number is not given out again.
JobRecord TunerService::unreadable(uint64_t job, const Status& why) {
  log::error("job {} cannot be read, and is left as it is: {}", job, why.message());
  return {.id = job,
          .state = JobState::kFailed,
          .message = "it cannot be read: " + why.message(),
          .readable = false};
}

JobFiles TunerService::files(uint64_t job) const {
  return {setting_.fs, join(setting_.state.file("jobs"), std::to_string(job))};
}

JobFiles TunerService::records(const ActivePtr& job) const {
  const std::string directory = files(job->id).directory();
  return {setting_.fs, job->records.empty() ? directory : join(directory, job->records)};
}

void TunerService::remove_done_rows() {
  for (const auto& [id, record] : jobs_) {
    if (record.state == JobState::kDone) files(id).remove_rows();
  }
}

void TunerService::save(const JobRecord& record) { files(record.id).save(record).or_throw(); }

void TunerService::note(uint64_t job, const std::string& text) {
  const std::string line = printable(text);
  logs_[job].push_back(line);
  if (const Status s = files(job).log(line); !s.ok()) log::warn("job {}: {}", job, s.message());
}

void TunerService::take_lines() {
  if (!active_) return;
  for (const std::string& line : active_->progress.take_lines()) note(active_->id, line);
}

void TunerService::handle(LinkEvent<wire::FromStore> event) {
  if (const auto* opened = std::get_if<LinkOpened>(&event.what)) {
    apply(sessions_.opened(now(), event.link, *opened));
  } else if (const auto* closed = std::get_if<LinkClosed>(&event.what)) {
    apply(sessions_.closed(event.link, closed->reason));
  } else {
    auto& message = std::get<wire::FromStore>(event.what);
    if (const Status s = wire::admit(message); !s.ok()) {
      return apply(sessions_.refuse(now(), event.link, s.message()));
    }
    TunerSessions::Actions actions = sessions_.message(now(), event.link, message);
    const std::optional<std::string> store = actions.deliver;
    apply(std::move(actions));
    if (store) deliver(*store, std::move(message));
  }
}

void TunerService::tick() {
  apply(sessions_.tick(now()));
  count_absence();
  if (active_ && active_->intake) apply(active_, "", active_->intake->tick(now()));
  take_lines();
  collect_versions();
  ask_again();
  pump_deletions();  // before another job begins
  start_next();
  pump_uploads();
}

TunerService::Time TunerService::next() const {
  Time next = sessions_.next();
  if (active_ && active_->intake) next = std::min(next, active_->intake->next());
  if (active_ && active_->again) next = std::min(next, active_->again_at);
  if (active_ && !active_->said.empty()) next = std::min(next, now() + kLook);
  if (!stopping_) next = std::min(next, uploads_.wakes());
  if (forget_at_ > Time(0) && !forgetting_ && !stopping_) next = std::min(next, forget_at_);
  return next;
}

void TunerService::apply(TunerSessions::Actions actions) {
  for (const std::string& warning : actions.warnings) log::warn("{}", warning);
  for (const auto& [store, reason] : actions.left) left(store, reason);
  for (auto& [link, message] : actions.send) setting_.links.send(link, std::move(message));
  for (const LinkId link : actions.close) setting_.links.close(link);
  if (actions.arrived) arrived(*actions.arrived);
}

void TunerService::arrived(const wire::Hello& hello) {
  StoreRecord& store = stores_[hello.store()];
  store.name = hello.store();
  store.numerics = hello.numerics();
  store.version = hello.version();
  store.photos = hello.photos();
  store.version_in_force = hello.version_in_force();
  store.here = true;
  store.last_seen = setting_.clock.unix_seconds();
  keep_known(store);
  log::info("store {} is here", store.name);
  store.takes_tokens = hello.takes_tokens();
  store.takes_tickets = hello.takes_tickets();
  send_tokens(store);
  greet_with_deletions(hello);  // before it is asked what it holds
  publish_to(store.name);
  if (active_ && has_part(*active_, store)) {
    apply(active_, store.name, active_->intake->arrive(now(), store.name));
  }
}

void TunerService::set_tokens(const std::string& json) {
  tokens_ = json;
  for (const auto& [name, store] : stores_) send_tokens(store);
}

void TunerService::send_tokens(const StoreRecord& store) {
  if (tokens_.empty() || !store.here || !store.takes_tokens) return;
  wire::ToStore m;
  m.mutable_tokens()->set_json(tokens_);
  m.mutable_tokens()->set_checksum(xxh3(tokens_.data(), tokens_.size()));
  if (setting_.ticket_key && store.takes_tickets) {
    m.mutable_tokens()->set_ticket_key(setting_.ticket_key(store.name));
  }
  send(store.name, std::move(m));
}

void TunerService::left(const std::string& name, const std::string& reason) {
  StoreRecord& store = stores_[name];
  store.here = false;
  store.last_seen = setting_.clock.unix_seconds();
  if (!store.drained) store.away = Time(0);
  store.counted = now();
  keep_known(store);
  log::info("store {} has left: {}", name, reason);
  if (active_ && active_->intake) {
    note(active_->id, "store " + name + " has left: " + reason);
    apply(active_, name, active_->intake->leave(now(), name));
  }
}

void TunerService::deliver(const std::string& name, wire::FromStore message) {
  if (message.has_model_wanted()) {
    model_wanted(name, message.model_wanted());
  } else if (message.has_in_force()) {
    stores_[name].version_in_force = message.in_force().version();
    log::info("store {} has version {} in force", name, message.in_force().version());
    publish_to(name);  // another may be by now
  } else if (message.has_uploads()) {
    take_uploads(name, message.uploads());
  } else if (message.has_space()) {
    take_space(name, message.space());
  } else if (message.has_deleted()) {
    stores_[name].deletions = std::min(message.deleted().count(), deletions_.size());
  } else if (message.has_leaving()) {
    apply(sessions_.refuse(now(), name, "the store stops: " + message.leaving().reason()));
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

void TunerService::send(const std::string& store, wire::ToStore message) {
  const std::optional<LinkId> link = sessions_.link_of(store);
  if (!link) return;
  sessions_.stamp(now(), *link, message);
  setting_.links.send(*link, std::move(message));
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
  record.id = jobs_.empty() ? 1 : jobs_.rbegin()->first + 1;
  for (const PublishedModel& m : setting_.versions.all()) {  // also of jobs that were removed
    record.id = std::max(record.id, m.job + 1);
  }
  record.spec = spec;
  record.submitted = setting_.clock.unix_seconds();
  save(record);
  jobs_[record.id] = record;
  start_next();
  return record.id;
}

const JobRecord& TunerService::job(uint64_t id) const {
  const auto it = jobs_.find(id);
  if (it == jobs_.end()) throw Error("there is no job ", id);
  return it->second;
}

void TunerService::cancel(uint64_t id) { put_away(id, JobState::kCancelled); }
void TunerService::pause(uint64_t id) { put_away(id, JobState::kPaused); }

void TunerService::put_away(uint64_t id, JobState state) {
  JobRecord record = job(id);
  if (!record.open() || record.state == state) {
    throw Error("job ", id, " is ", name_of(record.state), " already");
  }
  const std::string why = "on request";
  const bool in_progress = active_ && active_->id == id;
  if (in_progress) record.message = why;
  record.ended = state == JobState::kPaused ? 0 : setting_.clock.unix_seconds();
  const JobState before = std::exchange(record.state, state);
  if (const Status s = files(id).save(record); !s.ok()) {
    throw Error("job ", id, " is ", name_of(before), " as before: that it is ", name_of(state),
                " cannot be kept: ", s.message(),
                "; make room on the Tuner's volume and say it again");
  }
  jobs_[id] = record;
  start_now_.erase(id);
  if (in_progress) return leave(active_);
  note(id, std::string(name_of(state)) + ": " + why);
}

void TunerService::resume(uint64_t id, std::string_view changes) {
  JobRecord record = job(id);
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
    const std::optional<KeptManifest> kept = files(id).load_manifest().or_throw();
    if (kept) {
      throw Error("job ", id, " has its photos already, on ", kept->stores.size(),
                  kept->stores.size() == 1 ? " store" : " stores",
                  ": for other stores submit another job");
    }
  }
  record.state = JobState::kQueued;
  record.message.clear();
  record.ended = 0;
  save(record);
  jobs_[id] = record;
  note(id, "resumed" + (record.spec.text() == before ? "" : " with " + std::string(changes)));
  start_next();
}

const std::vector<std::string>& TunerService::log(uint64_t job) const {
  static const std::vector<std::string> kNothing;
  const auto it = logs_.find(job);
  return it == logs_.end() ? kNothing : it->second;
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

int64_t TunerService::room() const {
  return DiskBudget::default_room(setting_.fs, setting_.state.path()).or_throw();
}

void TunerService::stop() {
  stopping_ = true;
  if (!active_) return;
  active_->progress.interrupt();
  if (std::exchange(active_->again, nullptr)) active_->busy(active_->again_lane) = false;
  if (!active_->working && !active_->keeping) active_.reset();
}

}  // namespace ndtrain
