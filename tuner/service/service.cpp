#include "tuner/service/service.h"

#include <algorithm>
#include <utility>

#include "ndp/store/disk_budget.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

PhotoTrash::Ports trash_ports(const TunerService::Setting& setting, StoreRegistry& stores,
                              PhotoDeletions& deletions) {
  return {.fs = setting.fs,
          .directory = setting.state.path(),
          .clock = setting.clock,
          .lanes = setting.lanes,
          .stores = stores,
          .deletions = deletions,
          .uploads = setting.uploads,
          .audit = setting.audit};
}

PhotoHolders::Ports holders_ports(const TunerService::Setting& setting,
                                  const StoreRegistry& stores) {
  return {.fs = setting.fs,
          .directory = setting.state.path(),
          .lanes = setting.lanes,
          .known = [&stores](const std::string& name) { return stores.all().contains(name); }};
}

TaskRemoval::Ports task_ports(const TunerService::Setting& setting, const JobRecords& records,
                              ModelDistribution& models) {
  return {.clock = setting.clock,
          .lanes = setting.lanes,
          .records = records,
          .versions = setting.versions,
          .uploads = setting.uploads,
          .removed = [&models] { models.task_removed(); }};
}

UploadIngest::Ports upload_ports(const TunerService::Setting& setting, StoreRegistry& stores,
                                 const JobRecords& records, PhotoDeletions& deletions,
                                 PhotoTrash& trash, PhotoHolders& holders) {
  return {.clock = setting.clock,
          .lanes = setting.lanes,
          .stores = stores,
          .records = records,
          .deletions = deletions,
          .trash = trash,
          .holders = holders,
          .versions = setting.versions,
          .uploads = setting.uploads,
          .audit = setting.audit};
}

}  // namespace

TunerService::TunerService(const Setting& setting, TunerIdentity me, Time heartbeat,
                           uint64_t window)
    : setting_(setting),
      stores_({setting.fs, setting.clock, setting.state.path(), setting.links, setting.ticket_key},
              TunerSessions(std::move(me), heartbeat, window), *this),
      records_(setting.fs, setting.state.file("jobs")),
      holders_(holders_ports(setting, stores_)),
      deletions_({.fs = setting.fs,
                  .directory = setting.state.path(),
                  .clock = setting.clock,
                  .lanes = setting.lanes,
                  .stores = stores_,
                  .records = records_,
                  .uploads = setting.uploads,
                  .holders = &holders_,
                  .forget_features = setting.forget_features,
                  .idle = [this] { return runner_.idle(); }}),
      trash_(trash_ports(setting, stores_, deletions_)),
      uploads_(upload_ports(setting, stores_, records_, deletions_, trash_, holders_)),
      models_({.clock = setting.clock,
               .lanes = setting.lanes,
               .stores = stores_,
               .records = records_,
               .models = setting.models,
               .versions = setting.versions,
               .audit = setting.audit,
               .idle = [this] { return runner_.idle(); },
               .removed = [this] { history_.version_removed(); },
               .sent_for = [this](uint64_t bytes) { runner_.model_bytes_sent(bytes); }}),
      history_({.lanes = setting.lanes,
                .records = records_,
                .versions = setting.versions,
                .kept = setting.jobs_kept,
                .gone = [this](uint64_t job) { deletions_.job_gone(job); }}),
      tasks_(task_ports(setting, records_, models_)),
      runner_({.fs = setting.fs,
               .clock = setting.clock,
               .lanes = setting.lanes,
               .works = setting.works,
               .records = records_,
               .stores = stores_,
               .holders = holders_,
               .trash = trash_,
               .models = models_,
               .versions = setting.versions,
               .audit = setting.audit,
               .audit_seed = setting.audit_seed,
               .memory = setting.memory}),
      queue_({.clock = setting.clock,
              .records = records_,
              .stores = stores_,
              .models = setting.models,
              .versions = setting.versions,
              .deletions = deletions_,
              .runner = runner_,
              .at_once = setting.jobs_at_once}) {
  tick();
}

void TunerService::tick() {
  stores_.tick();
  runner_.tick();
  models_.collect();
  history_.pump();
  tasks_.pump();
  trash_.pump();
  deletions_.pump();  // before another job begins
  queue_.begin_next();
  uploads_.pump();
  probes_.pump();
}

TunerService::Time TunerService::next() const {
  return std::min({stores_.next(), runner_.next(), uploads_.next(), deletions_.next(),
                   trash_.next(), probes_.next(), tasks_.next()});
}

void TunerService::arrived(const wire::Hello& hello) {
  deletions_.greet(hello);  // before it is asked what it holds
  trash_.greet(hello);
  models_.publish_to(hello.store());
  runner_.ingest().arrive(hello.store());
  probes_.arrived();
}

void TunerService::left(const std::string& store, const std::string& reason) {
  runner_.ingest().left(store, reason);
  probes_.left(store);
  relay_.left(store);
}

void TunerService::message(const std::string& store, wire::FromStore message) {
  if (message.has_model_wanted()) {
    models_.wanted(store, message.model_wanted());
  } else if (message.has_in_force()) {
    models_.in_force(store, message.in_force());
  } else if (message.has_uploads()) {
    uploads_.take(store, message.uploads());
  } else if (message.has_space()) {
    uploads_.take_space(store, message.space());
    runner_.ingest().gained(store, message.space().gained());
  } else if (message.has_deleted()) {
    deletions_.let_go(store, message.deleted().count());
  } else if (message.has_probe()) {
    probes_.answer(store, message.probe());
  } else if (message.has_photo_wanted()) {
    relay_.wanted(store, message.photo_wanted());
  } else if (message.has_photo_part()) {
    relay_.part(store, std::move(*message.mutable_photo_part()));
  } else if (message.has_leaving()) {
    stores_.refuse(store, "the store stops: " + message.leaving().reason());
  } else {
    runner_.ingest().message(store, std::move(message));
  }
}

std::vector<StoreRecord> TunerService::stores() const {
  std::vector<StoreRecord> all = stores_.as_of_now();
  for (StoreRecord& store : all) store.deletions_due = deletions_.due(store);
  return all;
}

// Those that are in the trash leave it.
TunerService::Deletion TunerService::delete_photos(std::span<const Digest> photos) {
  Deletion d = deletions_.remove(photos);
  trash_.pump();
  return d;
}

Result<std::set<std::string>> TunerService::collections_holding(const Digest& photo) const {
  std::set<std::string> collections;
  for (const auto& [name, store] : stores_.all()) {
    const Result<bool> holds = holders_.holds(name, photo);
    if (!holds.ok()) return holds.status();
    if (*holds) collections.insert(store.collection);
  }
  return collections;
}

void TunerService::drain(const std::string& store, bool drained) {
  if (stores_.drain(store, drained)) runner_.ingest().drained(store);
}

void TunerService::forget(const std::string& store) {
  stores_.forget(store);
  holders_.forget(store);
}

int64_t TunerService::room() const {
  return DiskBudget::default_room(setting_.fs, setting_.state.path()).or_throw();
}

void TunerService::stop() {
  stores_.write();
  history_.stop();
  tasks_.stop();
  trash_.stop();
  deletions_.stop();
  uploads_.stop();
  models_.stop();
  runner_.stop();
}

}  // namespace ndtrain::tuner
