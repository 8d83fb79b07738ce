#include "ndp/jobs/photo_duplicates.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "framework/core/error.h"
#include "framework/core/limits.h"
#include "framework/runtime/backend.h"
#include "ndp/jobs/kept_hashes.h"
#include "ndp/photos/perceptual_hash.h"
#include "ndp/similarity/near_duplicates.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kHashedAtOnce = 256;

class LookHasher {
 public:
  LookHasher(const PhotoSet& set, const std::string& cache, Fs& fs, Clock& clock,
             Progress& progress)
      : set_(set),
        cache_(fs, clock, cache, "compares photos of " + set.root),
        fs_(fs),
        progress_(progress) {}

  PhotoHashes run() {
    result_.of.resize(set_.photos.size());
    cache_.open();
    std::vector<size_t> missing = look_up();
    if (!missing.empty() && !cache_.writes()) {
      if (!cache_.open_to_write(progress_)) {
        result_.interrupted = true;
        return std::move(result_);
      }
      missing = look_up();
    }
    result_.cached = static_cast<int64_t>(set_.photos.size() - missing.size());
    decode(missing);
    cache_.close();
    return std::move(result_);
  }

 private:
  std::vector<size_t> look_up() {
    std::vector<size_t> missing;
    const KeptHashes kept(cache_.store());
    for (size_t i = 0; i < set_.photos.size(); ++i) {
      result_.of[i] = kept.get(set_.photos[i].digest);
      if (!result_.of[i]) missing.push_back(i);
    }
    return missing;
  }

  Result<uint64_t> hash_of(const Photo& photo) const {
    const Result<std::string> file = fs_.read(join(set_.root, photo.path), limits::kPhotoFile);
    if (!file.ok()) return file.status();
    return hash_photo(photo.path, *file);
  }

  void decode(const std::vector<size_t>& missing) {
    if (missing.empty()) return;
    KeptHashes kept(cache_.store());
    progress_.begin("hashing what photos look like", std::ssize(missing), "photos");
    for (size_t at = 0; at < missing.size() && !result_.interrupted; at += kHashedAtOnce) {
      const auto some =
          std::span(missing).subspan(at, std::min(kHashedAtOnce, missing.size() - at));
      std::vector<Result<uint64_t>> hashes(some.size(), Status(Code::kCancelled, ""));
      shared_threads().parallel_for(std::ssize(some), 1, [&](int64_t begin, int64_t end) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
          hashes[i] = hash_of(set_.photos[some[i]]);
        }
      });
      for (size_t i = 0; i < some.size(); ++i) take(some[i], hashes[i], kept);
      progress_.update(static_cast<int64_t>(at + some.size()));
      result_.interrupted = progress_.interrupted();
    }
    progress_.end();
  }

  void take(size_t photo, const Result<uint64_t>& hash, KeptHashes& kept) {
    if (!hash.ok()) {
      result_.quarantined.push_back({set_.photos[photo].path, hash.status().message()});
      return;
    }
    ++result_.decoded;
    result_.of[photo] = *hash;
    kept.put(set_.photos[photo].digest, *hash);
  }

  const PhotoSet& set_;
  FeatureCache cache_;
  Fs& fs_;
  Progress& progress_;
  PhotoHashes result_;
};

// Of photos of a set, whose copies have one row.
class Cosines {
 public:
  Cosines(const PhotoSet& set, const PhotoEmbeddings* embeddings)
      : set_(set), embeddings_(embeddings) {
    if (!embeddings) return;
    for (size_t row = 0; row < embeddings->photos.size(); ++row) {
      row_of_.emplace(set.photos[embeddings->photos[row]].digest, row);
    }
  }
  std::optional<float> between(size_t a, size_t b) const {
    const auto x = row_of_.find(set_.photos[a].digest), y = row_of_.find(set_.photos[b].digest);
    if (x == row_of_.end() || y == row_of_.end()) return {};
    return product(embeddings_->rows.row(x->second), embeddings_->rows.row(y->second));
  }

 private:
  const PhotoSet& set_;
  const PhotoEmbeddings* embeddings_;
  std::map<Digest, size_t> row_of_;
};

// How many changed sides.
int64_t move_together(TrainingPhotos& photos, const std::vector<AlikePhoto>& group) {
  Digest lowest = photos.set.photos[group.front().photo].digest;
  for (const AlikePhoto& p : group) {
    lowest = std::min(lowest, photos.set.photos[p.photo].digest);
  }
  const bool validates = in_validation(lowest, photos.val_split);
  int64_t moved = 0;
  for (const AlikePhoto& p : group) {
    if (photos.for_validation[p.photo] != validates) ++moved;
    photos.for_validation[p.photo] = validates;
  }
  return moved;
}

int64_t validating_beside_training(const TrainingPhotos& photos,
                                   const std::vector<AlikePhoto>& group) {
  const auto validates = [&](const AlikePhoto& p) { return photos.for_validation[p.photo]; };
  const auto n = std::ranges::count_if(group, validates);
  return n == std::ssize(group) ? 0 : n;
}

}  // namespace

PhotoHashes hash_looks(const PhotoSet& set, const std::string& cache, Fs& fs, Clock& clock,
                       Progress& progress) {
  return LookHasher(set, cache, fs, clock, progress).run();
}

std::vector<std::vector<AlikePhoto>> duplicate_groups(const PhotoSet& set,
                                                      const PhotoHashes& hashes, int bits,
                                                      ThreadPool& threads,
                                                      const PhotoEmbeddings* embeddings,
                                                      float similarity) {
  const Cosines cosines(set, embeddings);
  std::vector<uint64_t> of_readable;
  std::vector<size_t> readable;
  std::map<Digest, size_t> first_with;
  std::vector<PhotoPair> pairs;
  for (size_t i = 0; i < set.photos.size(); ++i) {
    const auto [first, is_new] = first_with.emplace(set.photos[i].digest, i);
    if (!is_new) {
      pairs.push_back({first->second, i});
    } else if (hashes.of[i]) {
      readable.push_back(i);
      of_readable.push_back(*hashes.of[i]);
    }
  }
  if (embeddings) {
    for (const PhotoPair& p : pairs_within(of_readable, bits, threads)) {
      const size_t a = readable[p.first], b = readable[p.second];
      const std::optional<float> cosine = cosines.between(a, b);
      if (cosine && *cosine >= similarity) pairs.push_back({a, b});
    }
  } else {
    for (const std::vector<size_t>& group : groups_within(of_readable, bits, threads)) {
      for (const size_t i : group) pairs.push_back({readable[group.front()], readable[i]});
    }
  }
  std::vector<std::vector<AlikePhoto>> groups;
  for (const std::vector<size_t>& group : connected(set.photos.size(), pairs)) {
    std::vector<AlikePhoto>& alike = groups.emplace_back();
    const size_t first = group.front();
    for (const size_t i : group) {
      const bool both = hashes.of[first] && hashes.of[i];
      alike.push_back({i, both ? bits_between(*hashes.of[first], *hashes.of[i]) : 0,
                       cosines.between(first, i)});
    }
  }
  return groups;
}

void keep_duplicates_together(TrainingPhotos& photos, const std::string& cache, Fs& fs,
                              Clock& clock, Progress& progress) {
  PhotoSet set;
  for (size_t i = 0; i < photos.set.photos.size(); ++i) {
    set.photos.push_back(photos.set.photos[i]);
    set.photos.back().path = photos.path(i);
  }
  const PhotoHashes hashes = hash_looks(set, cache, fs, clock, progress);
  if (hashes.interrupted) {
    throw Error(
        "stopped while photos were compared, before the training began; give the same "
        "command again");
  }
  int64_t alike = 0, moved = 0, torn = 0;
  const auto groups = duplicate_groups(set, hashes, kAlikeBits, shared_threads());
  for (const std::vector<AlikePhoto>& group : groups) {
    alike += std::ssize(group);
    if (photos.val_split > 0) {
      moved += move_together(photos, group);
    } else {
      torn += validating_beside_training(photos, group);
    }
  }
  progress.say(
      fmt::format("{} photos are in {} groups that are almost the same: ", alike, groups.size()) +
      (photos.val_split > 0
           ? fmt::format("{} changed sides, so that each group is on one side of the split", moved)
           : fmt::format("{} of DATA/val are like one that is trained on, which flatters accuracy",
                         torn)));
}

}  // namespace ndtrain::ndp
