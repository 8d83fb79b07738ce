// A few photos of a set as a network sees them: what scales are measured and precisions compared
// on.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/tensor.h"
#include "ndp/jobs/photo_set.h"
#include "ndp/photos/preprocess.h"

namespace ndtrain {

// `n` photos that stand for all: those with the smallest digests, one of each content, so that the
// same photos are chosen whoever has them and in whatever order.
std::vector<size_t> sample_of(const PhotoSet& set, size_t n);

struct PhotoBatch {
  Tensor inputs;               // one row per photo
  std::vector<size_t> photos;  // in the set
};

// Preprocesses `photos` in batches of `batch`; what cannot be read is left out. `each` returns
// false to stop.
void for_each_batch(Fs& fs, const PhotoSet& set, std::span<const size_t> photos,
                    const Preprocess& preprocess, int64_t batch,
                    const std::function<bool(const PhotoBatch&)>& each);

}  // namespace ndtrain
