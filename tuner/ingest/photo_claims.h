// What stores say of their photos. One thread at a time; what many share, nobody changes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/hash.h"
#include "ndp/labels/label_db.h"

namespace ndtrain::tuner {
using namespace ndp;

// What one store, or a person, says of one photo.
struct PhotoClaim {
  Digest digest{};
  std::string label;  // "": none
  LabelSource source = LabelSource::kFolder;
  std::string path = {};  // below the store's photo directory, where the job asks for it
  int64_t time = 0;       // when it was said, in Unix seconds; 0: not known
  // What the photo looks like (ndp/photos/perceptual_hash.h), where the job asks and it can be
  // told.
  std::optional<uint64_t> hash = {};
};

// What one store says of all its photos, as columns, since they are very many: one takes 37 bytes,
// its path, and 8 where a job asks what it looks like.
class PhotoClaims {
 public:
  using Photos = std::shared_ptr<const std::pmr::vector<Digest>>;

  // `memory` is what columns are made of, and outlives them.
  explicit PhotoClaims(std::pmr::memory_resource* memory = std::pmr::new_delete_resource());
  // In any order.
  explicit PhotoClaims(std::span<const PhotoClaim> claims);
  PhotoClaims(PhotoClaims&&) = default;
  PhotoClaims& operator=(PhotoClaims&&) = default;

  size_t size() const { return photos_->size(); }
  // In byte order. They may be held on to longer than the rest.
  const Photos& photos() const { return shared_; }
  const Digest& digest(size_t i) const { return (*photos_)[i]; }
  std::optional<size_t> place_of(const Digest& photo) const;
  // 0: none; else 1 + its place in names().
  uint32_t label(size_t i) const { return labels_[i]; }
  LabelSource source(size_t i) const { return sources_[i]; }
  int64_t time(size_t i) const { return times_.empty() ? 0 : times_[i]; }
  std::string_view path(size_t i) const;  // "" where none was said
  std::optional<uint64_t> hash(size_t i) const;
  const std::vector<std::string>& names() const { return names_; }

  void add_name(std::string name) { names_.push_back(std::move(name)); }
  // Behind those that are there, in byte order; `label` as above.
  void add(const Digest& photo, uint32_t label, LabelSource source, std::string_view path = {},
           int64_t time = 0, std::optional<uint64_t> hash = {});

  PhotoClaims without(const std::function<bool(const Digest&)>& photos) const;

 private:
  template <typename T>
  using Column = std::pmr::vector<T>;

  std::shared_ptr<Column<Digest>> photos_;
  Photos shared_;
  Column<uint32_t> labels_;
  Column<LabelSource> sources_;
  std::vector<std::string> names_;
  std::pmr::string paths_;      // one after the other
  Column<uint64_t> path_ends_;  // in it; none: no photo has a path
  Column<int64_t> times_;       // none: no photo has one
  Column<uint64_t> hashes_;     // the same, with
  std::vector<bool> hashed_;    // whether it has one
};

using SharedClaims = std::shared_ptr<const PhotoClaims>;

}  // namespace ndtrain::tuner
