#include "tuner/versions.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "framework/core/publish.h"

namespace ndtrain {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const PublishedModel& m) {
  return {{"version", m.version},
          {"content", to_hex(m.content)},
          {"extractor", to_hex(m.extractor)},
          {"head", to_hex(m.head)},
          {"classes", m.classes},
          {"created", m.created},
          {"metrics", Json::parse(m.metrics)},
          {"job", m.job}};
}

PublishedModel from_json(const Json& j) {
  return {.version = j.at("version"),
          .content = digest_from_hex(j.at("content").get<std::string>()),
          .extractor = digest_from_hex(j.at("extractor").get<std::string>()),
          .head = digest_from_hex(j.at("head").get<std::string>()),
          .classes = j.at("classes"),
          .created = j.at("created"),
          .metrics = j.at("metrics").dump(),
          .job = j.at("job")};
}

}  // namespace

Versions::Versions(Fs& fs, std::string path) : fs_(fs), path_(std::move(path)) {
  const Result<std::string> text = fs_.read(path_);
  if (text.status().code() == Code::kNotFound) return;
  text.status().or_throw();
  try {
    for (const Json& j : Json::parse(*text)) all_.push_back(from_json(j));
  } catch (const std::exception& e) {
    throw Error(path_, ": ", e.what());
  }
}

const PublishedModel* Versions::find(uint64_t version) const {
  const auto it = std::ranges::find(all_, version, &PublishedModel::version);
  return it == all_.end() ? nullptr : &*it;
}

const PublishedModel* Versions::of_job(uint64_t job) const {
  const auto it = std::ranges::find(all_, job, &PublishedModel::job);
  return it == all_.end() ? nullptr : &*it;
}

Result<PublishedModel> Versions::add(PublishedModel model) {
  model.version = all_.empty() ? 1 : all_.back().version + 1;
  Json json = Json::array();
  for (const PublishedModel& m : all_) json.push_back(to_json(m));
  json.push_back(to_json(model));
  if (const Status s = publish(fs_, path_, json.dump(2) + "\n"); !s.ok()) return s;
  all_.push_back(model);
  return model;
}

}  // namespace ndtrain
