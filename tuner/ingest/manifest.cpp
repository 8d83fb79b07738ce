#include "tuner/ingest/manifest.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "ndp/photos/dataset.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

// What all stores claim of one photo.
struct PhotoClaims {
  std::set<uint32_t> holders;
  std::set<std::pair<int, std::string>> labels;  // -rank of the source, then name: best first
};

}  // namespace

uint32_t run_of(const Digest& photo, const ManifestRules& rules) {
  if (in_validation(photo, rules.val_split)) return 0;
  return 1 + static_cast<uint32_t>(xxh3(photo.data(), photo.size(), rules.seed) % rules.runs);
}

Manifest::Manifest(std::span<const std::vector<PhotoClaim>> inventories, const ManifestRules& rules)
    : runs_(rules.runs + 1) {
  if (rules.runs < 1) throw Error("a job has at least one run");
  std::map<Digest, PhotoClaims> photos;
  std::set<std::string> names;
  for (uint32_t store = 0; store < inventories.size(); ++store) {
    for (const PhotoClaim& claim : inventories[store]) {
      if (rules.leave_out && rules.leave_out(claim.digest)) continue;
      PhotoClaims& claims = photos[claim.digest];
      claims.holders.insert(store);
      if (claim.label.empty()) continue;
      claims.labels.emplace(-static_cast<int>(claim.source), claim.label);
      names.insert(claim.label);
    }
  }
  for (const PhotoClaim& truth : rules.truths) {
    const auto photo = photos.find(truth.digest);
    if (photo == photos.end()) continue;
    photo->second.labels.emplace(-static_cast<int>(truth.source), truth.label);
    names.insert(truth.label);
  }
  std::set<std::string> unknown = names;
  for (const std::string& name : rules.classes) unknown.erase(name);
  if (rules.add_classes || unknown.empty()) {
    classes_ = rules.classes;
    classes_.insert(classes_.end(), unknown.begin(), unknown.end());
  } else {
    classes_.assign(names.begin(), names.end());
  }
  std::map<std::string, int32_t> ids;
  for (const std::string& name : classes_) ids.emplace(name, static_cast<int32_t>(ids.size()));

  for (const auto& [digest, claims] : photos) {
    if (claims.labels.empty()) {
      ++unlabelled_;
      if (rules.only_labelled) continue;
    }
    const uint64_t number = entries_.size();
    const uint32_t run = run_of(digest, rules);
    runs_[run].push_back(number);
    entries_.push_back({.digest = digest,
                        .run = run,
                        .label = claims.labels.empty() ? -1 : ids.at(claims.labels.begin()->second),
                        .holders = {claims.holders.begin(), claims.holders.end()}});
    std::set<std::string> different;
    for (const auto& [rank, name] : claims.labels) different.insert(name);
    if (different.size() > 1) conflicts_.push_back({number, {different.begin(), different.end()}});
  }
}

Manifest::Manifest(std::vector<Entry> entries, std::vector<std::string> classes, uint32_t runs)
    : entries_(std::move(entries)), runs_(runs + 1), classes_(std::move(classes)) {
  for (uint64_t number = 0; number < entries_.size(); ++number) {
    const Entry& e = entries_[number];
    if (e.run > runs || e.label < -1 || e.label >= static_cast<int64_t>(classes_.size()) ||
        e.holders.empty() || (number > 0 && !(entries_[number - 1].digest < e.digest))) {
      throw Error("a manifest that contradicts itself at photo ", number);
    }
    runs_[e.run].push_back(number);
    unlabelled_ += e.label < 0;
  }
}

Digest Manifest::digest() const {
  Sha256 hash;
  for (const std::string& name : classes_) hash.field(name);
  for (const Entry& e : entries_) {
    hash.update(e.digest.data(), e.digest.size()).field(int64_t{e.run}).field(int64_t{e.label});
  }
  return hash.finish();
}

}  // namespace ndtrain::tuner
