#include "tuner/service/photo_holders.h"

#include <algorithm>

namespace ndtrain::tuner {
using namespace ndp;

void PhotoHolders::set(const std::string& store, std::span<const PhotoClaim> photos) {
  std::vector<Digest>& mine = photos_[store];
  mine.clear();
  for (const PhotoClaim& p : photos) mine.push_back(p.digest);
  std::ranges::sort(mine);
}

void PhotoHolders::recall(const SavedManifest& kept) {
  std::map<std::string, std::vector<Digest>> photos;
  for (uint64_t n = 0; n < kept.manifest.size(); ++n) {
    const Manifest::Entry& e = kept.manifest.entry(n);  // entries rise
    for (const uint32_t holder : e.holders) photos[kept.stores.at(holder)].push_back(e.digest);
  }
  photos_.merge(photos);
}

bool PhotoHolders::holds(const std::string& store, const Digest& photo) const {
  const auto it = photos_.find(store);
  return it != photos_.end() && std::ranges::binary_search(it->second, photo);
}

bool PhotoHolders::held_elsewhere(const std::string& store, const Digest& photo) const {
  return std::ranges::any_of(photos_, [&](const auto& other) {
    return other.first != store && std::ranges::binary_search(other.second, photo);
  });
}

std::span<const Digest> PhotoHolders::photos_of(const std::string& store) const {
  const auto it = photos_.find(store);
  return it == photos_.end() ? std::span<const Digest>() : std::span(it->second);
}

}  // namespace ndtrain::tuner
