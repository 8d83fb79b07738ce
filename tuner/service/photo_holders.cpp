#include "tuner/service/photo_holders.h"

#include <algorithm>

namespace ndtrain::tuner {
using namespace ndp;

void PhotoHolders::recall(const SavedManifest& kept) {
  std::map<std::string, std::vector<Digest>> photos;
  for (uint64_t n = 0; n < kept.manifest.size(); ++n) {
    const Manifest::Entry& e = kept.manifest.entry(n);  // entries rise
    for (const uint32_t holder : e.holders) photos[kept.stores.at(holder)].push_back(e.digest);
  }
  for (auto& [store, held] : photos) {
    photos_.emplace(store, std::make_shared<const std::vector<Digest>>(std::move(held)));
  }
}

bool PhotoHolders::holds(const std::string& store, const Digest& photo) const {
  const auto it = photos_.find(store);
  return it != photos_.end() && std::ranges::binary_search(*it->second, photo);
}

bool PhotoHolders::held_elsewhere(const std::string& store, const Digest& photo) const {
  return std::ranges::any_of(photos_, [&](const auto& other) {
    return other.first != store && std::ranges::binary_search(*other.second, photo);
  });
}

std::span<const Digest> PhotoHolders::photos_of(const std::string& store) const {
  const auto it = photos_.find(store);
  return it == photos_.end() ? std::span<const Digest>() : std::span(*it->second);
}

}  // namespace ndtrain::tuner
