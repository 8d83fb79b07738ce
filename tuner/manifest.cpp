#include "tuner/manifest.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "ndp/photos/dataset.h"

namespace ndtrain {
namespace {

// All that is said of one photo.
struct Said {
  std::set<uint32_t> holders;
  std::set<std::pair<int, std::string>> labels;  // -rank of the source, then name: best first
};

}  // namespace

uint32_t run_of(const Digest& photo, const ManifestRules& rules) {
  if (in_validation(photo, rules.val_split)) return 0;
  return 1 + static_cast<uint32_t>(xxh3(photo.data(), photo.size(), rules.seed) % rules.runs);
}

Manifest::Manifest(std::span<const std::vector<PhotoClaim>> inventories, const ManifestRules& rules,
                   std::vector<std::string> classes)
    : runs_(rules.runs + 1), classes_(std::move(classes)) {
  if (rules.runs < 1) throw Error("a job has at least one run");
  std::map<Digest, Said> photos;
  std::set<std::string> names;
  for (uint32_t store = 0; store < inventories.size(); ++store) {
    for (const PhotoClaim& claim : inventories[store]) {
      Said& said = photos[claim.digest];
      said.holders.insert(store);
      if (claim.label.empty()) continue;
      said.labels.emplace(-static_cast<int>(claim.source), claim.label);
      names.insert(claim.label);
    }
  }
  for (const std::string& name : classes_) names.erase(name);
  classes_.insert(classes_.end(), names.begin(), names.end());
  std::map<std::string, int32_t> ids;
  for (const std::string& name : classes_) ids.emplace(name, static_cast<int32_t>(ids.size()));

  for (const auto& [digest, said] : photos) {
    if (said.labels.empty()) {
      ++unlabelled_;
      continue;
    }
    const uint64_t number = entries_.size();
    const uint32_t run = run_of(digest, rules);
    runs_[run].push_back(number);
    entries_.push_back({.digest = digest,
                        .run = run,
                        .label = ids.at(said.labels.begin()->second),
                        .holders = {said.holders.begin(), said.holders.end()}});
    std::set<std::string> different;
    for (const auto& [rank, name] : said.labels) different.insert(name);
    if (different.size() > 1) conflicts_.push_back({number, {different.begin(), different.end()}});
  }
}

}  // namespace ndtrain
