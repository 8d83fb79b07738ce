// Photos of a set that are almost the same, by what they look like.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ndp/jobs/feature_cache.h"
#include "ndp/jobs/photo_embeddings.h"
#include "ndp/jobs/training_photos.h"

namespace ndtrain::ndp {

// What near-duplicates are: photos whose hashes (difference_hash()) differ in few bits, and, where
// embeddings say more, whose cosine is high. Of 3249 flowers 15 pairs are within 3 bits, of which
// 3 show other things (cosines below .7); within 10 bits 18 of 1718 have a cosine of .9, all of
// the same scene. Resized and recompressed copies differ in 0 to 3 bits, 5 % less at each edge
// in 9.
inline constexpr int kAlikeBits = 3;         // by hashes alone
inline constexpr int kAlikeBitsOfMany = 10;  // with kAlikeCosine
inline constexpr float kAlikeCosine = 0.9F;

struct PhotoHashes {
  std::vector<std::optional<uint64_t>> of;  // each photo of the set; nullopt: it cannot be decoded
  std::vector<QuarantinedPhoto> quarantined;
  int64_t cached = 0, decoded = 0;
  bool interrupted = false;  // some were not looked at
};

// difference_hash() of each; kept in the cache, so that the next time decodes only what is new.
PhotoHashes hash_looks(const PhotoSet& set, const std::string& cache, Fs& fs, Clock& clock,
                       Progress& progress);

struct AlikePhoto {
  size_t photo = 0;                      // of the set
  int bits = 0;                          // between its hash and that of the group's first photo
  std::optional<float> similarity = {};  // of the two, where embeddings say
};

// At least two photos in each group, in the order of the set: the same bytes, or hashes that differ
// in no more than `bits` and, with `embeddings`, a cosine of `similarity`; directly or by way of
// others. A photo without a hash or an embedding is alone.
std::vector<std::vector<AlikePhoto>> duplicate_groups(const PhotoSet& set,
                                                      const PhotoHashes& hashes, int bits,
                                                      ThreadPool& threads,
                                                      const PhotoEmbeddings* embeddings = nullptr,
                                                      float similarity = kAlikeCosine);

// Of a split by content: near-duplicates (kAlikeBits) are all trained on or all validated with, as
// the lowest of their digests has it, since the one would be known by heart from the other. A
// DATA/val stays as it is; how many of its photos are like one that is trained on is said. Throws
// Error also when it is interrupted.
void keep_duplicates_together(TrainingPhotos& photos, const std::string& cache, Fs& fs,
                              Clock& clock, Progress& progress);

}  // namespace ndtrain::ndp
