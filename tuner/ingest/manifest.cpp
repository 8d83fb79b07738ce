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
  // -rank of the source, then name: best first; and when it was said last.
  std::map<std::pair<int, std::string>, int64_t> labels;

  void add(const PhotoClaim& claim) {
    int64_t& time = labels[{-static_cast<int>(claim.source), claim.label}];
    time = std::max(time, claim.time);
  }
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
      if (claim.label.empty() || !rules.holders_label) continue;
      claims.add(claim);
      names.insert(claim.label);
    }
  }
  for (const PhotoClaim& truth : rules.truths) {
    const auto photo = photos.find(truth.digest);
    if (photo == photos.end()) continue;
    photo->second.add(truth);
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
    entries_.push_back({.digest = digest,
                        .run = run_of(digest, rules),
                        .label = -1,
                        .holders = {claims.holders.begin(), claims.holders.end()}});
    if (claims.labels.empty()) continue;
    const auto& [label, time] = *claims.labels.begin();
    entries_.back().label = ids.at(label.second);
    entries_.back().label_time = time;
  }
  if (rules.choose) {
    const std::vector<bool> stays = rules.choose(entries_, classes_);
    size_t n = 0;
    std::erase_if(entries_, [&](const Entry&) { return !stays.at(n++); });
  }
  for (uint64_t number = 0; number < entries_.size(); ++number) {
    runs_[entries_[number].run].push_back(number);
    std::set<std::string> different;
    for (const auto& [label, time] : photos.at(entries_[number].digest).labels) {
      different.insert(label.second);
    }
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
