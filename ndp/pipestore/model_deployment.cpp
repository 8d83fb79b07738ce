#include "ndp/pipestore/model_deployment.h"

#include <exception>
#include <string>
#include <utility>

#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/pipestore/store_lanes.h"
#include "ndp/wire/checksummed_json.h"
#include "ndp/wire/digests.h"

namespace ndtrain::ndp {
namespace {

constexpr const char* kInForceFile = "in_force.json";

// None: the Tuner hears so, and sends it again.
VersionInForce read_in_force(Fs& fs, const std::string& path, ModelBlobs& blobs) {
  const Result<std::string> text = fs.read(path);
  if (text.status().code() == Code::kNotFound) return {};
  text.status().or_throw();
  VersionInForce v;
  try {
    const Json json = verified(*text);
    v.version = json.at("version");
    if (json.contains("extractor"))
      v.extractor = digest_from_hex(json.at("extractor").get<std::string>());
    if (json.contains("head")) v.head = digest_from_hex(json.at("head").get<std::string>());
  } catch (const std::exception& e) {
    log::error("{}: {}; the Tuner is asked which version is in force", path, e.what());
    return {};
  }
  for (const auto& model : {v.extractor, v.head}) {
    const Status s = model ? blobs.check(*model) : Status();
    if (s.ok()) continue;
    log::error("version {}: {}; it is fetched again", v.version, s.message());
    blobs.remove(*model);
    return {};
  }
  return v;
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
  ports_.tuner.put_in_force(in_force_.version);
}

void ModelDeployment::publish(const wire::Publish& message) {
  coming_ =
      VersionInForce{message.version(), digest_of(message.extractor()), digest_of(message.head())};
  ports_.go_on();
}

void ModelDeployment::advance() {
  if (coming_ && !checking_ && ports_.models.fetch(models_of(*coming_))) check();
}

void ModelDeployment::model_failed() {
  if (coming_) retry_at_ = now() + kRetry;
}

void ModelDeployment::tick() {
  if (now() < retry_at_) return;
  retry_at_ = Time::max();
  ports_.go_on();
}

// It may have been on the disk since long before.
void ModelDeployment::check() {
  if (models_of(*coming_).empty()) return put_in_force();
  checking_ = true;
  ports_.lanes.start(kStoreLane, [this, next = *coming_]() -> Continuation {
    return [this, next, damage = ports_.models.damage_in(models_of(next))] {
      checking_ = false;
      if (!ports_.tuner.open()) return;  // the next session says what is to be in force
      if (damage) return ports_.models.fetch_again(*damage);
      if (!coming_) return;
      if (coming_->version != next.version) return ports_.go_on();  // another has come meanwhile
      ports_.models.found_whole();
      put_in_force();
    };
  });
}

// Rows read the version when they begin, so it changes between two of them.
void ModelDeployment::put_in_force() {
  const VersionInForce next = *std::exchange(coming_, std::nullopt);
  Json json = {{"version", next.version}};
  if (next.extractor) json["extractor"] = to_hex(*next.extractor);
  if (next.head) json["head"] = to_hex(*next.head);
  const Status s =
      ndtrain::publish(ports_.fs, ports_.state.file(kInForceFile), checksummed(json, -1));
  if (!s.ok()) {
    log::error("version {} cannot be put in force: {}", next.version, s.message());
    coming_ = next;
    retry_at_ = now() + kRetry;
    return;
  }
  sweep(std::exchange(in_force_, next));
  ports_.tuner.put_in_force(next.version);
  log::info("version {} is in force", next.version);
  if (ports_.changed) ports_.changed();
  wire::FromStore m;
  m.mutable_in_force()->set_version(next.version);
  ports_.tuner.send(std::move(m));
}

// The version before stays, for a way back.
void ModelDeployment::sweep(const VersionInForce& before) {
  if (!ports_.models.idle()) return;
  std::vector<Digest> keep = models_of(in_force_);
  for (const Digest& model : models_of(before)) keep.push_back(model);
  for (const Digest& model : ports_.jobs.models()) keep.push_back(model);
  ports_.blobs.sweep(keep);
}

}  // namespace ndtrain::ndp
