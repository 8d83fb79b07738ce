// A few photos that stand for all of a directory that is far away, fetched before the others: what
// precisions are compared on.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ndp/jobs/photo_sample.h"

namespace ndtrain::ndp {

struct FarSample {
  static constexpr int64_t kBytes = int64_t{64} << 20;  // of the files that are kept

  PhotoSet set;
  std::vector<PhotoRead> files;  // that were fetched just now, as many as may be kept
};

// At most `n`, by a hash of their paths, since those of their bytes are known only once all are
// fetched. Those that are new or changed are fetched, and the catalogue knows them then. The caller
// has the lock of the scan. Throws Error where the source cannot be read.
FarSample far_sample(PhotoSource& source, Catalogue& catalogue, const std::string& root, size_t n);

// Both must outlive it. Photos whose files are not kept are read from `fs`.
PhotoSample sample_of(const FarSample& far, const Preprocess& preprocess, Fs& fs);

}  // namespace ndtrain::ndp
