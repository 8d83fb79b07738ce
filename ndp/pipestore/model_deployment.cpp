#include "ndp/pipestore/model_deployment.h"

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "framework/core/checksummed_json.h"
#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/labels/label_db.h"
#include "ndp/pipestore/store_lanes.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/message_limits.h"

namespace ndtrain::ndp {
namespace {

constexpr const char* kInForceFile = "in_force.json";

constexpr const char* kTasks = "tasks";  // others than the default one

VersionInForce read_version(const Json& json) {
  VersionInForce v{.version = json.at("version"), .extractor = {}, .head = {}};
  if (json.contains("extractor"))
    v.extractor = digest_from_hex(json.at("extractor").get<std::string>());
  if (json.contains("head")) v.head = digest_from_hex(json.at("head").get<std::string>());
  return v;
}

Json write_version(const VersionInForce& v) {
  Json json = {{"version", v.version}};
  if (v.extractor) json["extractor"] = to_hex(*v.extractor);
  if (v.head) json["head"] = to_hex(*v.head);
  return json;
}

// The default task's version stands where earlier programs have the only one.
Json write_versions(const VersionsInForce& versions) {
  Json json = {{"version", 0}};
  for (const auto& [task, v] : versions) {
    if (task == kDefaultTask) json.update(write_version(v));
    if (task != kDefaultTask) json[kTasks][task] = write_version(v);
  }
  return json;
}

VersionsInForce read_versions(const Json& json) {
  VersionsInForce all = {{std::string(kDefaultTask), read_version(json)}};
  if (!json.contains(kTasks)) return all;
  for (const auto& [task, v] : json.at(kTasks).items()) all.emplace(task, read_version(v));
  return all;
}

bool is_whole(const VersionInForce& v, ModelBlobs& blobs) {
  for (const auto& model : {v.extractor, v.head}) {
    const Status s = model ? blobs.check(*model) : Status();
    if (s.ok()) continue;
    log::error("version {}: {}; it is fetched again", v.version, s.message());
    blobs.remove(*model);
    return false;
  }
  return true;
}

// Without those that are damaged: the Tuner hears so, and sends them again.
VersionsInForce read_in_force(Fs& fs, const std::string& path, ModelBlobs& blobs) {
  VersionsInForce all;
  const Result<std::string> text = fs.read(path);
  if (text.status().code() != Code::kNotFound) {
    text.status().or_throw();
    try {
      all = read_versions(verified(*text));
    } catch (const std::exception& e) {
      log::error("{}: {}; the Tuner is asked which version is in force", path, e.what());
    }
  }
  std::erase_if(all, [&](const auto& of_task) { return !is_whole(of_task.second, blobs); });
  all.try_emplace(std::string(kDefaultTask));
  return all;
}

wire::InForce said(const std::string& task, const VersionInForce& v) {
  wire::InForce m;
  m.set_version(v.version);
  if (task != kDefaultTask) m.set_task(task);
  return m;
}

bool is_withdrawal(const std::string& task, const VersionInForce& coming) {
  return coming.version == 0 && task != kDefaultTask;
}

std::vector<Digest> models_of(const VersionInForce& version) {
  std::vector<Digest> models;
  if (version.extractor) models.push_back(*version.extractor);
  if (version.head) models.push_back(*version.head);
  return models;
}

}  // namespace

ModelDeployment::ModelDeployment(Ports ports)
    : ports_(std::move(ports)),
      in_force_(read_in_force(ports_.fs, ports_.state.file(kInForceFile), ports_.blobs)) {
  say_in_force();
}

// Of the next session's Hello.
void ModelDeployment::say_in_force() {
  std::vector<wire::InForce> all;
  for (const auto& [task, v] : in_force_) all.push_back(said(task, v));
  ports_.tuner.put_in_force(all);
}

// Why no Tuner would say so; "" where one would.
std::string ModelDeployment::objection(const wire::Publish& message) const {
  if (message.extractor().empty() && (message.version() > 0 || !message.head().empty())) {
    return fmt::format("version {} has no extractor", message.version());
  }
  std::set<std::string_view> tasks{kDefaultTask};
  for (const VersionsInForce& all : {std::cref(in_force_), std::cref(coming_)}) {
    for (const auto& [task, version] : all) tasks.insert(task);
  }
  if (!message.task().empty()) tasks.insert(message.task());
  if (static_cast<int64_t>(tasks.size()) - 1 <= wire::kMostTasks) return "";
  return fmt::format("versions of {} tasks besides the default one; {} are the most",
                     tasks.size() - 1, wire::kMostTasks);
}

void ModelDeployment::publish(const wire::Publish& message) {
  if (const std::string why = objection(message); !why.empty()) return ports_.tuner.refuse(why);
  coming_.insert_or_assign(
      message.task().empty() ? std::string(kDefaultTask) : message.task(),
      VersionInForce{message.version(), digest_of(message.extractor()), digest_of(message.head())});
  ports_.go_on();
}

void ModelDeployment::advance() {
  if (coming_.empty() || checking_) return;
  if (ports_.models.fetch(models_of(coming_.begin()->second))) check();
}

void ModelDeployment::model_failed() {
  if (!coming_.empty()) retry_at_ = now() + kRetry;
}

void ModelDeployment::tick() {
  if (now() < retry_at_) return;
  retry_at_ = Time::max();
  ports_.go_on();
}

// It may have been on the disk since long before.
void ModelDeployment::check() {
  const auto& [task, coming] = *coming_.begin();
  if (is_withdrawal(task, coming)) return withdraw();
  if (models_of(coming).empty()) return put_in_force();
  checking_ = true;
  ports_.lanes.start(kStoreLane, [this, task, next = coming]() -> Continuation {
    return [this, task, next, damage = ports_.models.damage_in(models_of(next))] {
      checking_ = false;
      if (!ports_.tuner.open()) return;  // the next session says what is to be in force
      if (damage) return ports_.models.fetch_again(*damage);
      if (coming_.empty()) return;
      const auto& first = *coming_.begin();  // another may have come meanwhile
      if (first.first != task || first.second.version != next.version) return ports_.go_on();
      ports_.models.found_whole();
      put_in_force();
    };
  });
}

// First what is known in the task goes: after a crash in between, the Tuner says it again.
void ModelDeployment::withdraw() {
  const std::string task = coming_.begin()->first;
  const auto before = in_force_.find(task);
  const uint64_t version = before == in_force_.end() ? 0 : before->second.version;
  checking_ = true;
  ports_.lanes.start(kStoreLane, [this, task, version]() -> Continuation {
    const Status s = ports_.log ? ports_.log->forget_task(task, version) : Status();
    return [this, task, s] {
      checking_ = false;
      if (!s.ok()) {
        log::error("what was said in the task {} cannot be forgotten: {}", task, s.message());
        retry_at_ = now() + kRetry;
      } else if (!coming_.empty() && coming_.begin()->first == task &&
                 is_withdrawal(task, coming_.begin()->second)) {
        put_in_force();
      } else {
        ports_.go_on();  // another version has come meanwhile
      }
    };
  });
}

// Rows read the version when they begin, so it changes between two of them.
void ModelDeployment::put_in_force() {
  const auto [task, next] = *coming_.begin();
  VersionsInForce all = in_force_;
  all.insert_or_assign(task, next);
  if (is_withdrawal(task, next)) all.erase(task);
  const Status s = ndtrain::publish(ports_.fs, ports_.state.file(kInForceFile),
                                    checksummed(write_versions(all), -1));
  if (!s.ok()) {
    log::error("version {} cannot be put in force: {}", next.version, s.message());
    retry_at_ = now() + kRetry;
    return;
  }
  coming_.erase(task);
  sweep(std::exchange(in_force_, std::move(all))[task]);
  say_in_force();
  if (is_withdrawal(task, next)) {
    log::info("nothing is in force of task {} any more", task);
  } else {
    log::info("version {} is in force{}", next.version,
              task == kDefaultTask ? "" : " of task " + task);
  }
  if (ports_.changed) ports_.changed(task);
  wire::FromStore m;
  *m.mutable_in_force() = said(task, next);
  ports_.tuner.send(std::move(m));
  if (!coming_.empty()) ports_.go_on();
}

// The version before stays, for a way back.
void ModelDeployment::sweep(const VersionInForce& before) {
  if (!ports_.models.idle()) return;
  std::vector<Digest> keep = models_of(before);
  for (const VersionsInForce& all : {in_force_, coming_}) {
    for (const auto& [task, version] : all) {
      for (const Digest& model : models_of(version)) keep.push_back(model);
    }
  }
  for (const Digest& model : ports_.jobs.models()) keep.push_back(model);
  ports_.blobs.sweep(keep);
}

}  // namespace ndtrain::ndp
