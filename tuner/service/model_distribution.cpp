#include "tuner/service/model_distribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "framework/core/hash.h"
#include "framework/core/log.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/message_limits.h"
#include "ndp/wire/protocol.h"
#include "tuner/service/service_lanes.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

std::vector<Digest> held_of(const wire::ModelWanted& wanted) {
  std::vector<Digest> held;
  for (const std::string& bytes : wanted.held()) {
    if (const auto digest = digest_of(bytes)) held.push_back(*digest);
  }
  return held;
}

}  // namespace

void ModelDistribution::wanted(const std::string& store, const wire::ModelWanted& wanted) {
  if (!wanted.failure().empty()) {
    log::warn("store {} has not come to model {} by deltas: {}", store,
              to_hex(digest_of(wanted.sha256()).value_or(Digest())).substr(0, 12),
              wanted.failure());
  }
  const std::optional<Digest> model = digest_of(wanted.sha256());
  const std::optional<LinkId> link = ports_.stores.link_of(store);
  if (const std::string why = objection(store, link); !why.empty()) {
    return ports_.stores.refuse(store, why);
  }
  const std::vector<Digest> held = held_of(wanted);
  const bool any_way = model && link && !held.empty() && wanted.failure().empty();
  if (!any_way || wanted.offset() > static_cast<uint64_t>(ports_.models.size(*model))) {
    return send_parts(store, wanted);
  }
  asks_.push_back({store, *link, wanted, deltas_.worth_trying(ports_.versions, *model, held)});
  answer_asks();
}

// Why a store is asked to ask for less; "" where it may go on. An honest one asks for one file at a
// time, and for the next part when it has this one.
std::string ModelDistribution::objection(const std::string& store,
                                         std::optional<LinkId> link) const {
  if (const size_t waiting = ports_.stores.waiting(store); waiting > kMostWaiting) {
    return fmt::format(
        "it asks for more than it takes: {} bytes wait for it, {} may where it "
        "asks for models",
        waiting, kMostWaiting);
  }
  const auto mine = [&](const Ask& ask) { return link && ask.link == *link; };
  if (static_cast<size_t>(std::ranges::count_if(asks_, mine)) < kMostAsks) return "";
  return fmt::format("it asks for models {} times without waiting for an answer", kMostAsks + 1);
}

// One delta at a time, so that stores which ask for the same wait for it together.
void ModelDistribution::answer_asks() {
  while (!making_ && !asks_.empty() && !stopping_) {
    const std::optional<ModelPair> pair = asks_.front().pair;
    if (!pair || deltas_.was_tried(*pair)) {
      const Ask ask = std::move(asks_.front());
      asks_.pop_front();
      answer(ask);
      continue;
    }
    making_ = true;
    ports_.lanes.start(kDeltaLane, [this, pair = *pair]() -> Continuation {
      const auto made = make_delta_edge(ports_.models, pair);
      return [this, pair, made] {
        making_ = false;
        asks_.front().pair.reset();
        if (made.ok()) {
          deltas_.tried(pair, *made);
        } else {
          log::warn("no delta to model {}: {}", to_hex(pair.second).substr(0, 12),
                    made.status().message());
        }
        answer_asks();
      };
    });
  }
}

void ModelDistribution::answer(const Ask& ask) {
  if (ask.store.empty() || ports_.stores.link_of(ask.store) != ask.link) return;
  const std::optional<Digest> model = digest_of(ask.wanted.sha256());
  const int64_t rest = ports_.models.size(*model) - static_cast<int64_t>(ask.wanted.offset());
  const std::vector<DeltaEdge> way = deltas_.cheapest(*model, held_of(ask.wanted), rest);
  if (way.empty()) return send_parts(ask.store, ask.wanted);
  wire::ToStore message;
  message.mutable_way()->set_sha256(ask.wanted.sha256());
  int64_t bytes = 0;
  for (const DeltaEdge& step : way) {
    wire::Way::Step& s = *message.mutable_way()->add_steps();
    s.set_delta(bytes_of(step.delta));
    s.set_base(bytes_of(step.base));
    s.set_result(bytes_of(step.result));
    bytes += step.bytes;
  }
  log::info("store {} gets model {} by {} deltas, {} bytes instead of {}", ask.store,
            to_hex(*model).substr(0, 12), way.size(), bytes, rest);
  ports_.stores.send(ask.store, std::move(message));
}

void ModelDistribution::send_parts(const std::string& store, const wire::ModelWanted& wanted) {
  const std::optional<Digest> model = digest_of(wanted.sha256());
  auto offset = static_cast<int64_t>(wanted.offset());
  for (int i = 0; i < kModelParts && model; ++i) {
    Result<ModelStore::Part> part = ports_.models.read(*model, offset, kModelPart);
    const bool whole = part.ok() && offset == part->total;  // a store that died before it knew
    if (!part.ok() || (part->bytes.empty() && (i > 0 || !whole))) {
      if (i == 0) {
        ports_.stores.refuse(store, "model " + to_hex(*model).substr(0, 12) +
                                        " is not here from byte " + std::to_string(offset) + " on");
      }
      return;
    }
    wire::ToStore message;
    wire::ModelPart& m = *message.mutable_model_part();
    m.set_sha256(wanted.sha256());
    m.set_offset(static_cast<uint64_t>(offset));
    m.set_total(static_cast<uint64_t>(part->total));
    m.set_checksum(xxh3(part->bytes.data(), part->bytes.size()));
    ports_.stores.record(store).model_bytes += part->bytes.size();
    ports_.sent_for(part->bytes.size());
    offset += static_cast<int64_t>(part->bytes.size());
    m.set_bytes(std::move(part->bytes));
    ports_.stores.send(store, std::move(message));
  }
}

void ModelDistribution::in_force(const std::string& store, const wire::InForce& in_force) {
  const std::string task = in_force.task().empty() ? std::string(kDefaultTask) : in_force.task();
  std::map<std::string, uint64_t>& all = ports_.stores.record(store).in_force;
  if (in_force.version() == 0 && task != kDefaultTask) {
    all.erase(task);
    log::info("store {} labels nothing{} any more", store, of_task(task));
  } else if (!all.contains(task) && all.size() > wire::kMostTasks) {
    return ports_.stores.refuse(
        store, fmt::format("it has versions of more than {} tasks in force", wire::kMostTasks));
  } else {
    all[task] = in_force.version();
    log::info("store {} has version {}{} in force", store, in_force.version(), of_task(task));
  }
  publish_to(store);  // another may be by now
}

void ModelDistribution::publish_to(const std::string& name) {
  const StoreRecord& store = ports_.stores.record(name);
  std::set<std::string> withdrawn;  // another may be in force once the store has let go of this
  for (const auto& [task, removed] : ports_.versions.removed_tasks()) {
    if (removed.had(store.version_in_force(task))) withdrawn.insert(task);
  }
  for (const std::string& task : withdrawn) send_publish(store, {.task = task});
  for (const std::string& task : ports_.versions.tasks()) {
    const std::optional<PublishedModel> model = ports_.versions.in_force(task);
    if (!model || store.version_in_force(task) == model->version) continue;
    if (withdrawn.contains(task)) continue;
    if (!ports_.versions.collections(task).contains(store.collection)) continue;
    if (task != kDefaultTask && !store.speaks_of_tasks) continue;  // its record says so
    send_publish(store, *model);
  }
}

// Of no version where nothing is in force of the task any more.
void ModelDistribution::send_publish(const StoreRecord& store, const PublishedModel& model) {
  wire::ToStore message;
  wire::Publish& p = *message.mutable_publish();
  p.set_version(model.version);
  if (model.version > 0) p.set_extractor(bytes_of(model.extractor));
  if (model.version > 0 && model.head != model.extractor) p.set_head(bytes_of(model.head));
  if (model.task != kDefaultTask) p.set_task(model.task);
  ports_.stores.send(store.name, std::move(message));
}

void ModelDistribution::submitted(const JobSpec& spec) {
  if (spec.kind != JobKind::kRelabel || spec.dry_run || !ports_.versions.in_force(spec.task))
    return;
  ports_.versions.add_collection(spec.task, spec.collection).or_throw();
  publish_to_all();
}

// As one that a person asks for.
void ModelDistribution::record_promotion(const PublishedModel& model) {
  if (!ports_.audit) return;
  const std::optional<PublishedModel> before = ports_.versions.in_force(model.task);
  const bool by_rule = ports_.records.job(model.job).spec.promote == Promote::kRule;
  const AuditLine line{.who = "job " + std::to_string(model.job),
                       .what = "promotion",
                       .request = by_rule ? "by rule" : "as submitted",
                       .before = text_of(before)};
  ports_.audit->add(line).or_throw();
}

PublishedModel ModelDistribution::publish(PublishedModel model, bool production) {
  std::optional<PublishedModel> published =
      model.job > 0 ? ports_.versions.of_job(model.job) : std::nullopt;
  if (!published) {
    const std::optional<PublishedModel> before = ports_.versions.in_force(model.task);
    model.parent = before ? before->version : 0;
    model.created = ports_.clock.unix_seconds();
    if (production && model.job > 0) record_promotion(model);
    const auto job = ports_.records.all().find(model.job);
    const std::string collection = job == ports_.records.all().end()
                                       ? std::string(kDefaultCollection)
                                       : job->second.spec.collection;
    ports_.versions.add_collection(model.task, collection).or_throw();
    published = ports_.versions.add(std::move(model), production).or_throw();
    collect_ = true;
  }
  for (const ModelPair& pair : deltas_.from_parent(ports_.versions, *published)) {
    asks_.push_back({.pair = pair});
  }
  answer_asks();
  publish_to_all();
  return *published;
}

void ModelDistribution::publish_to_all() {
  for (const std::string& store : ports_.stores.here()) publish_to(store);
}

void ModelDistribution::promote(uint64_t version) {
  ports_.versions.point(kProduction, version).or_throw();
  now_in_force(*ports_.versions.find(version));
}

void ModelDistribution::now_in_force(const PublishedModel& model) {
  log::info("{} is in force", text_of(model));
  publish_to_all();
  collect_ = true;
}

void ModelDistribution::set_candidate(uint64_t version) {
  ports_.versions.point(kCandidate, version).or_throw();
}

uint64_t ModelDistribution::rollback(const std::string& task) {
  const PublishedModel model = ports_.versions.roll_back(task).or_throw();
  now_in_force(model);
  return model.version;
}

void ModelDistribution::remove(uint64_t version) {
  for (const auto& [name, store] : ports_.stores.all()) {
    if (store.here && store.runs(version)) {
      throw Error("store ", name, " has version ", version, " in force");
    }
  }
  ports_.versions.remove(version).or_throw();
  ports_.removed();
  collect_ = true;
}

void ModelDistribution::task_removed() {
  publish_to_all();
  ports_.removed();
  collect_ = true;
}

// Not while a job may have asked for some of their files.
void ModelDistribution::collect() {
  if (!collect_ || !ports_.idle() || making_) return;
  collect_ = false;
  Versions& versions = ports_.versions;
  if (!remove_old_versions()) return;
  std::vector<Digest> removed;
  for (const Digest& file : versions.garbage()) {
    const std::string hex = to_hex(file);
    const bool needed = std::ranges::any_of(ports_.records.all(), [&](const auto& j) {
      return j.second.state != JobState::kDone && j.second.spec.model == hex;
    });
    if (needed) continue;
    const Status s = ports_.models.remove(file);
    if (s.ok() || s.code() == Code::kNotFound) removed.push_back(file);
  }
  if (const Status s = versions.forget_garbage(removed); !s.ok()) log::warn("{}", s.message());
  deltas_.collect();
}

// Of each task the newest are kept.
bool ModelDistribution::remove_old_versions() {
  Versions& versions = ports_.versions;
  std::map<std::string, size_t> newer;
  const std::vector<PublishedModel> all = versions.all();
  for (auto m = all.rbegin(); m != all.rend(); ++m) {
    if (newer[m->task]++ < kKeptVersions || is_needed(*m)) continue;
    if (const Status s = versions.remove(m->version); !s.ok()) {
      log::warn("version {} cannot be removed: {}", m->version, s.message());
      return false;
    }
    log::info("version {} is removed: {} newer ones are kept", m->version, kKeptVersions);
    ports_.removed();
  }
  return true;
}

bool ModelDistribution::is_needed(const PublishedModel& m) const {
  const bool held = std::ranges::any_of(ports_.stores.all(),
                                        [&](const auto& s) { return s.second.runs(m.version); });
  return held || !ports_.versions.aliases_of(m.version).empty() ||
         ports_.versions.in_force_before(m.task) == m.version;
}

}  // namespace ndtrain::tuner
