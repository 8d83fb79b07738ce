#include "tuner/ingest/photo_claims.h"

#include <algorithm>
#include <map>

#include "tuner/ingest/digest_search.h"

namespace ndtrain::tuner {

PhotoClaims::PhotoClaims(std::pmr::memory_resource* memory)
    : photos_(std::make_shared<Column<Digest>>(memory)),
      shared_(photos_),
      labels_(memory),
      sources_(memory),
      paths_(memory),
      path_ends_(memory),
      times_(memory),
      hashes_(memory) {}

PhotoClaims::PhotoClaims(std::span<const PhotoClaim> claims) : PhotoClaims() {
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

std::optional<size_t> PhotoClaims::place_of(const Digest& photo) const {
  return find_digest(
      size(), [this](size_t i) -> const Digest& { return digest(i); }, photo);
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
  PhotoClaims rest(labels_.get_allocator().resource());
  rest.names_ = names_;
  for (size_t i = 0; i < size(); ++i) {
    if (!photos(digest(i))) rest.add(digest(i), label(i), source(i), path(i), time(i), hash(i));
  }
  return rest;
}

}  // namespace ndtrain::tuner
