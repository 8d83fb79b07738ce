#include "ndp/pipestore/service.h"

#include <algorithm>

#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/message_limits.h"
#include "ndp/wire/protocol.h"
#include "ndp/wire/sealed_json.h"

namespace ndtrain {
namespace {

// What cannot be read, or whose files are not as they came, is not in force: the Tuner hears so,
// and sends it again.
VersionInForce read_in_force(Fs& fs, const std::string& path, ModelShelf& shelf) {
  const Result<std::string> text = fs.read(path);
  if (text.status().code() == Code::kNotFound) return {};
  text.status().or_throw();
  VersionInForce v;
  try {
    const Json json = unsealed(*text);
    v.version = json.at("version");
    if (json.contains("extractor"))
      v.extractor = digest_from_hex(json.at("extractor").get<std::string>());
    if (json.contains("head")) v.head = digest_from_hex(json.at("head").get<std::string>());
  } catch (const std::exception& e) {
    log::error("{}: {}; the Tuner is asked which version is in force", path, e.what());
    return {};
  }
  for (const auto& model : {v.extractor, v.head}) {
    const Status s = model ? shelf.check(*model) : Status();
    if (s.ok()) continue;
    log::error("version {}: {}; it is fetched again", v.version, s.message());
    shelf.remove(*model);
    return {};
  }
  return v;
}

// How many of the Tuner's deletions were heard of, and the mark of that list. None: all come again.
std::pair<uint64_t, uint64_t> read_deletions(Fs& fs, const std::string& path) {
  const Result<std::string> text = fs.read(path);
  const Json json = text.ok() ? try_parse_json(*text) : Json();
  if (!json.is_object()) return {};
  return {json.value("count", uint64_t{0}), json.value("mark", uint64_t{0})};
}

wire::Hello with_version(wire::Hello hello, const VersionInForce& version) {
  hello.set_version_in_force(version.version);
  return hello;
}

}  // namespace

PipeStoreService::PipeStoreService(const Setting& setting, wire::Hello hello, uint64_t seed)
    : setting_(setting),
      shelf_(setting.fs, setting.state.file("models")),
      in_force_(read_in_force(setting.fs, setting.state.file("in_force.json"), shelf_)),
      session_(with_version(std::move(hello), in_force_), setting.state.known_tuner().or_throw(),
               seed),
      models_({.fs = setting.fs,
               .shelf = shelf_,
               .lanes = setting.lanes,
               .lane = 0,
               .apply = setting.apply,
               .send = [this](wire::FromStore m) { send(std::move(m)); },
               .here = [this] { advance(); },
               .failed = [this](const std::string& reason) { model_failed(reason); }}) {
  const auto [count, mark] = read_deletions(setting.fs, setting.state.file("deletions.json"));
  session_.put_deletions(count, mark);
}

void PipeStoreService::handle(LinkEvent<wire::ToStore> event) {
  if (event.link != link_id_) return;  // of a link that was given up
  if (std::holds_alternative<LinkOpened>(event.what)) {
    session_.put_photos(setting_.maker.photos());
    apply(session_.opened(now()));
  } else if (const auto* closed = std::get_if<LinkClosed>(&event.what)) {
    apply(session_.closed(now(), closed->reason));
  } else {
    auto& message = std::get<wire::ToStore>(event.what);
    if (const Status s = wire::admit(message); !s.ok()) {
      return apply(session_.refuse(now(), s.message()));
    }
    const StoreSession::Actions actions = session_.message(now(), message);
    apply(actions);
    if (actions.deliver) deliver(message);
  }
}

void PipeStoreService::tick() {
  apply(session_.tick(now()));
  if (!session_.open()) return;
  tell_space();
  send_uploads();
  if (now() < retry_at_) return;
  retry_at_ = Time::max();
  advance();
}

void PipeStoreService::apply(const StoreSession::Actions& actions) {
  if (actions.remember) setting_.state.remember(*actions.remember).or_throw();
  for (const wire::FromStore& m : actions.send) link_->send(m);
  if (!session_.open()) {  // what was under way belongs to a session that is over
    jobs_.clear();
    models_.session_over();
    uploads_sent_.clear();
    upload_bytes_ = 0;
    space_ = {};
    space_at_ = Time(0);
  }
  if (actions.close && link_) link_->close();
  if (!actions.note.empty()) log::info("{}", actions.note);
  if (actions.dial) link_ = setting_.dial(++link_id_);
}

void PipeStoreService::leave(const std::string& reason) {
  if (!session_.open()) return;
  wire::FromStore m;
  m.mutable_leaving()->set_reason(wire::as_text(reason));
  send(std::move(m));
  link_->close();
}

void PipeStoreService::send(wire::FromStore message) {
  session_.stamp(now(), message);
  link_->send(std::move(message));
}

void PipeStoreService::answer(const Job& job, wire::FromStore message) {
  message.set_answers(job.ask.serial());
  send(std::move(message));
}

void PipeStoreService::refuse(uint64_t id, const std::string& reason) {
  log::warn("job {} cannot be done here: {}", id, reason);
  wire::FromStore m;
  m.mutable_refused()->set_job(id);
  m.mutable_refused()->set_reason(wire::as_text(reason));
  const auto job = jobs_.extract(id);
  answer(job.mapped(), std::move(m));
}

void PipeStoreService::deliver(const wire::ToStore& m) {
  if (m.has_job()) {
    log::info("job {} begins", m.job().job());
    jobs_[m.job().job()] = Job{.ask = m.job(), .serial = ++serials_};
    list(m.job().job());
    advance();
  } else if (m.has_model_part()) {
    if (models_.part(m.model_part())) return;
    link_->close();
    apply(session_.closed(now(), "a model part with a wrong checksum"));
  } else if (m.has_way()) {
    models_.way(m.way());
  } else if (m.has_publish()) {
    coming_ = VersionInForce{m.publish().version(), digest_of(m.publish().extractor()),
                             digest_of(m.publish().head())};
    advance();
  } else if (m.has_wanted()) {
    const auto job = jobs_.find(m.wanted().job());
    if (job == jobs_.end() || !job->second.work) return;
    if (const Status s = job->second.work->wanted(m.wanted()); !s.ok()) {
      return refuse(job->first, s.message());
    }
    pump(job->first);
  } else if (m.has_ack()) {
    const auto job = jobs_.find(m.ack().job());
    if (job == jobs_.end() || !job->second.work) return;
    job->second.work->acknowledged(m.ack());
    pump(job->first);
  } else if (m.has_tokens()) {
    const std::string& json = m.tokens().json();
    if (xxh3(json.data(), json.size()) == m.tokens().checksum()) {
      if (setting_.tokens) setting_.tokens(json, m.tokens().ticket_key());
      return;
    }
    link_->close();
    apply(session_.closed(now(), "tokens with a wrong checksum"));
  } else if (m.has_deletions()) {
    deletions(m.deletions());
  } else if (m.has_uploads_kept()) {
    uploads_kept(m.uploads_kept());
  } else if (m.has_job_end()) {
    job_ended(m.job_end());
  }
}

void PipeStoreService::job_ended(const wire::JobEnd& end) {
  if (!jobs_.erase(end.job())) return;
  log::info("job {} has ended{}{}", end.job(), end.reason().empty() ? "" : ": ", end.reason());
  setting_.maker.give_up(end.job());
  if (opened_ != end.job()) return;
  opened_ = 0;
  setting_.lanes.start(0, [this]() -> Continuation {
    setting_.maker.close();
    return nullptr;
  });
}

std::vector<Digest> PipeStoreService::models_of(const wire::Job& job) const {
  std::vector<Digest> models;
  if (const auto d = digest_of(job.extractor())) models.push_back(*d);
  if (const auto d = digest_of(job.head())) models.push_back(*d);
  return models;
}

std::vector<Digest> PipeStoreService::models_of(const VersionInForce& version) {
  std::vector<Digest> models;
  if (version.extractor) models.push_back(*version.extractor);
  if (version.head) models.push_back(*version.head);
  return models;
}

void PipeStoreService::advance() {
  std::vector<uint64_t> ids;
  for (const auto& [id, job] : jobs_) ids.push_back(id);
  for (const uint64_t id : ids) {  // any of which may be refused meanwhile
    const auto job = jobs_.find(id);
    if (job == jobs_.end() || job->second.opening || job->second.work) continue;
    const bool here = models_.fetch(models_of(job->second.ask));
    if (!here || !job->second.inventory) continue;
    if (listed_ == job->second.serial) {
      open(id);
    } else {  // the maker has another job's list
      job->second.inventory.reset();
      list(id);
    }
  }
  if (coming_ && !checking_ && models_.fetch(models_of(*coming_))) check_coming();
}

std::optional<PipeStoreService::DamagedModel> PipeStoreService::damage_in(
    std::span<const Digest> models) const {
  for (const Digest& model : models) {
    const Status s = shelf_.check(model);
    if (s.code() == Code::kCorrupt) return DamagedModel{model, s.message()};
  }
  return std::nullopt;
}

void PipeStoreService::fetch_again(const DamagedModel& damage) {
  log::error("{}; it is fetched again", damage.what);
  shelf_.remove(damage.model);
  if (++damaged_ < ModelFetch::kCorruptModels) return advance();
  damaged_ = 0;
  model_failed(damage.what);
}

// It may have been on the disk since long before.
void PipeStoreService::check_coming() {
  if (models_of(*coming_).empty()) return swap_in();
  checking_ = true;
  setting_.lanes.start(0, [this, next = *coming_]() -> Continuation {
    return [this, next, damage = damage_in(models_of(next))] {
      checking_ = false;
      if (!session_.open()) return;  // the next one says what is to be in force
      if (damage) return fetch_again(*damage);
      if (!coming_) return;
      if (coming_->version != next.version) return advance();  // another has come meanwhile
      damaged_ = 0;
      swap_in();
    };
  });
}

void PipeStoreService::model_failed(const std::string& reason) {
  if (coming_) retry_at_ = now() + kRetry;
  std::vector<uint64_t> waiting;
  for (const auto& [id, job] : jobs_) {
    if (!job.work && !job.opening) waiting.push_back(id);
  }
  for (const uint64_t id : waiting) refuse(id, "its model cannot be kept: " + reason);
}

// Rows read the version when they begin, so it changes between two of them.
void PipeStoreService::swap_in() {
  const VersionInForce next = *std::exchange(coming_, std::nullopt);
  Json json = {{"version", next.version}};
  if (next.extractor) json["extractor"] = to_hex(*next.extractor);
  if (next.head) json["head"] = to_hex(*next.head);
  const Status s = publish(setting_.fs, setting_.state.file("in_force.json"), sealed(json, -1));
  if (!s.ok()) {
    log::error("version {} cannot be put in force: {}", next.version, s.message());
    coming_ = next;
    retry_at_ = now() + kRetry;
    return;
  }
  sweep_models(std::exchange(in_force_, next));
  session_.put_in_force(next.version);
  log::info("version {} is in force", next.version);
  if (setting_.in_force_changed) setting_.in_force_changed();
  wire::FromStore m;
  m.mutable_in_force()->set_version(next.version);
  send(std::move(m));
}

// The version before stays, for a way back.
void PipeStoreService::sweep_models(const VersionInForce& before) {
  if (!models_.idle()) return;
  std::vector<Digest> keep = models_of(in_force_);
  for (const Digest& model : models_of(before)) keep.push_back(model);
  for (const auto& [id, job] : jobs_) {
    for (const Digest& model : models_of(job.ask)) keep.push_back(model);
  }
  shelf_.sweep(keep);
}

}  // namespace ndtrain
