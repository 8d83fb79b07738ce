// Labelling photos into a label database: resumable, and idempotent per version.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "framework/core/clock.h"
#include "ndp/jobs/classify.h"
#include "ndp/jobs/low_precision.h"
#include "ndp/jobs/named_photos.h"
#include "ndp/labels/label_db.h"

namespace ndtrain::ndp {

struct RelabelConfig {
  NamedPhotos photos;
  std::string collection = std::string(kDefaultCollection), task = std::string(kDefaultTask);
  std::string cache = {};  // "": default_cache_directory()
  int64_t k = 5, batch = 32;
  bool keep_crops = false;      // in the cache, so that the next version needs no decoding
  bool compress_crops = false;  // those that are kept
  bool dry_run = false;         // only counts
  PrecisionConfig precision = {};
  std::chrono::nanoseconds again = std::chrono::seconds(5);  // see relabel()
};

struct RelabelResult {
  int64_t photos = 0;    // that can be read, by path
  int64_t already = 0;   // distinct photos that this version had labelled before
  int64_t labelled = 0;  // distinct photos labelled now; with dry_run: that would be
  int64_t skipped = 0;   // formats we do not read
  VersionInfo version;
  // On disk, of features and crops; 0 when no crops are kept.
  int64_t cache_bytes = 0;
  std::vector<QuarantinedPhoto> quarantined;
  EngineStats engine;
  bool interrupted = false;
};

// A human's label is never replaced. Labels are committed batch by batch, so a relabel that was
// killed goes on where it stopped. The model's version is in force from the beginning. Photos of an
// S3 are labelled while they are read for the first time, so that each is fetched once; when the S3
// does not answer any more this is said, and it is asked again every `again`. Throws Error.
RelabelResult relabel(const RelabelConfig& config, const ModelFile& model, const Device& device,
                      LabelDb& db, Fs& fs, Clock& clock, Progress& progress);

}  // namespace ndtrain::ndp
