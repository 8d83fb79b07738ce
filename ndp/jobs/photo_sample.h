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

namespace ndtrain::ndp {

struct PhotoBatch {
  Tensor inputs;               // one row per photo
  std::vector<size_t> photos;  // which they are
};

// Photos that stand for all of a collection, wherever they are: those with the smallest digests,
// one of each content, so that the same photos are chosen whoever has them and in whatever order.
struct PhotoSample {
  using Each = std::function<bool(const PhotoBatch&)>;  // false: stop

  std::string source;           // for people
  std::vector<Digest> digests;  // of each photo, in order
  std::vector<int64_t> labels;  // the same; -1: none counts
  // `photos` in batches of `batch`, preprocessed; what cannot be read is left out.
  std::function<void(std::span<const size_t> photos, int64_t batch, const Each& each)> read;

  size_t size() const { return labels.size(); }
};

// `n` photos of a directory, which all must outlive the sample.
PhotoSample sample_of(const PhotoSet& set, size_t n, const Preprocess& preprocess, Fs& fs);

// A sample's `read`, of photos whose inputs are filled one by one: false where a photo cannot be
// read. `fill` is called on the process's threads.
using FillInput = std::function<bool(size_t photo, float* to)>;
void for_each_batch(std::span<const size_t> photos, int64_t batch, const Preprocess& preprocess,
                    const FillInput& fill, const PhotoSample::Each& each);

}  // namespace ndtrain::ndp
