#include "tuner/ingest/photo_claims.h"

#include <algorithm>
#include <map>

namespace ndtrain::tuner {

PhotoClaims::PhotoClaims(std::span<const PhotoClaim> claims) {
  std::vector<const PhotoClaim*> sorted;
  for (const PhotoClaim& c : claims) sorted.push_back(&c);
  std::ranges::stable_sort(sorted, {}, &PhotoClaim::digest);
  std::map<std::string, uint32_t> numbers;
  for (const PhotoClaim* c : sorted) {
    uint32_t label = 0;
    if (!c->label.empty()) {
      label = numbers.emplace(c->label, static_cast<uint32_t>(numbers.size() + 1)).first->second;
      if (label > names_.size()) add_name(c->label);
    }
    add(c->digest, label, c->source, c->path, c->time, c->hash);
  }
}

// Digests lie about evenly, so that one is near where its first bytes say; from there in steps that
// double, which costs little more than a search of all where they do not.
std::optional<size_t> PhotoClaims::place_of(const Digest& photo) const {
  const std::vector<Digest>& all = *photos_;
  const double share = (photo[0] * 65536.0 + photo[1] * 256.0 + photo[2]) / (1 << 24);
  size_t low = static_cast<size_t>(share * static_cast<double>(all.size())), high = low;
  for (size_t step = 1; low > 0 && !(all[low] < photo); step *= 2) low -= std::min(step, low);
  for (size_t step = 1; high < all.size() && all[high] < photo; step *= 2) {
    high = std::min(all.size(), high + step);
  }
  const auto end = all.begin() + static_cast<int64_t>(std::min(all.size(), high + 1));
  const auto at = std::lower_bound(all.begin() + static_cast<int64_t>(low), end, photo);
  if (at == end || *at != photo) return std::nullopt;
  return static_cast<size_t>(at - all.begin());
}

std::string_view PhotoClaims::path(size_t i) const {
  if (path_ends_.empty()) return {};
  const uint64_t begin = i == 0 ? 0 : path_ends_[i - 1];
  return std::string_view(paths_).substr(begin, path_ends_[i] - begin);
}

std::optional<uint64_t> PhotoClaims::hash(size_t i) const {
  return i < hashed_.size() && hashed_[i] ? std::optional(hashes_[i]) : std::nullopt;
}

void PhotoClaims::add(const Digest& photo, uint32_t label, LabelSource source,
                      std::string_view path, int64_t time, std::optional<uint64_t> hash) {
  if (hash) {
    hashes_.resize(size() + 1);
    hashed_.resize(size() + 1);
    hashes_.back() = *hash;
    hashed_.back() = true;
  }
  if (time != 0 && times_.empty()) times_.resize(size());
  if (time != 0 || !times_.empty()) times_.push_back(time);
  if (!path.empty() && path_ends_.empty()) path_ends_.resize(size());
  photos_->push_back(photo);
  labels_.push_back(label);
  sources_.push_back(source);
  paths_ += path;
  if (!path.empty() || !path_ends_.empty()) path_ends_.push_back(paths_.size());
}

PhotoClaims PhotoClaims::without(const std::function<bool(const Digest&)>& photos) const {
  PhotoClaims rest;
  rest.names_ = names_;
  for (size_t i = 0; i < size(); ++i) {
    if (!photos(digest(i))) rest.add(digest(i), label(i), source(i), path(i), time(i), hash(i));
  }
  return rest;
}

}  // namespace ndtrain::tuner
