// Embeddings of photos (ndp/similarity/embedding.h), by what a training of the classifier alone
// would freeze of a model. Features come from the cache, and are kept there for the next time.
#pragma once

#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "ndp/jobs/features.h"
#include "ndp/jobs/model_file.h"
#include "ndp/similarity/embedding_rows.h"

namespace ndtrain::ndp {

struct PhotoEmbeddingsConfig {
  std::string cache = {};    // "": default_cache_directory()
  int64_t memory_limit = 0;  // bytes of features; 0: half of the free memory
  int64_t batch = 32;
};

struct PhotoEmbeddings {
  EmbeddingRows rows;          // of length 1
  std::vector<size_t> photos;  // of each row, in the order of the set
  ExtractionReport extraction;
  std::vector<QuarantinedPhoto> quarantined;
  int64_t skipped = 0;
  bool interrupted = false;  // rows lack photos
};

// Each photo is its bytes: of several with the same ones, the first. Throws Error, also where the
// model has nothing in front of a classifier.
PhotoEmbeddings embed_photos(const PhotoSet& set, const ModelFile& model,
                             const PhotoEmbeddingsConfig& config, const Device& device, Fs& fs,
                             Clock& clock, Progress& progress);

}  // namespace ndtrain::ndp
