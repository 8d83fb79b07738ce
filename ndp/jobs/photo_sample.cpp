#include "ndp/jobs/photo_sample.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "framework/core/limits.h"
#include "framework/runtime/backend.h"
#include "ndp/engine/engine.h"

namespace ndtrain::ndp {
namespace {

PhotoBatch batch_of(std::span<const size_t> photos, const Preprocess& preprocess,
                    const FillInput& fill) {
  const size_t values = preprocess.values();
  std::vector<float> rows(photos.size() * values);
  std::vector<uint8_t> read(photos.size(), 0);
  shared_threads().parallel_for(
      static_cast<int64_t>(photos.size()), 1, [&](int64_t from, int64_t to) {
        for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(to); ++i) {
          read[i] = fill(photos[i], &rows[i * values]);
        }
      });
  PhotoBatch b;
  for (size_t i = 0; i < photos.size(); ++i) {
    if (read[i]) b.photos.push_back(photos[i]);
  }
  if (b.photos.empty()) return b;
  const auto n = static_cast<int64_t>(b.photos.size());
  const int64_t side = preprocess.img_size;
  const bool last = preprocess.layout == Layout::kNhwc;
  b.inputs = Tensor({DType::kF32, last ? Shape{n, side, side, 3} : Shape{n, 3, side, side}});
  float* to = b.inputs.mutable_as<float>().data();
  for (size_t i = 0; i < photos.size(); ++i) {
    if (!read[i]) continue;
    std::copy_n(&rows[i * values], values, to);
    to += values;
  }
  return b;
}

}  // namespace

void for_each_batch(std::span<const size_t> photos, int64_t batch, const Preprocess& preprocess,
                    const FillInput& fill, const PhotoSample::Each& each) {
  const auto most = static_cast<size_t>(batch);
  for (size_t begin = 0; begin < photos.size(); begin += most) {
    const auto some = photos.subspan(begin, std::min(most, photos.size() - begin));
    const PhotoBatch b = batch_of(some, preprocess, fill);
    if (!b.photos.empty() && !each(b)) return;
  }
}

PhotoSample sample_of(const PhotoSet& set, size_t n, const Preprocess& preprocess, Fs& fs) {
  std::vector<size_t> chosen(set.photos.size());
  std::iota(chosen.begin(), chosen.end(), size_t{0});
  const auto digest = [&](size_t i) -> const Digest& { return set.photos[i].digest; };
  std::ranges::stable_sort(chosen, {}, digest);
  const auto same = std::ranges::unique(chosen, {}, digest);
  chosen.erase(same.begin(), same.end());
  if (chosen.size() > n) chosen.resize(n);
  PhotoSample sample{.source = set.root, .digests = {}, .labels = {}, .read = {}};
  for (const size_t i : chosen) {
    sample.digests.push_back(set.photos[i].digest);
    sample.labels.push_back(set.photos[i].label);
  }
  const auto fill = [&set, &fs, chosen = std::move(chosen), preprocess](size_t i, float* to) {
    const std::string& path = set.photos[chosen[i]].path;
    const auto file = fs.read(join(set.root, path), limits::kPhotoFile);
    PhotoCost cost;
    return file.ok() && preprocess_photo(path, *file, preprocess, to, cost).ok();
  };
  sample.read = [fill, preprocess](auto photos, int64_t batch, const PhotoSample::Each& each) {
    for_each_batch(photos, batch, preprocess, fill, each);
  };
  return sample;
}

}  // namespace ndtrain::ndp
