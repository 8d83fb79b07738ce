#include "ndp/jobs/photo_sample.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "framework/core/limits.h"
#include "framework/runtime/backend.h"
#include "ndp/engine/engine.h"

namespace ndtrain {

std::vector<size_t> sample_of(const PhotoSet& set, size_t n) {
  std::vector<size_t> all(set.photos.size());
  std::iota(all.begin(), all.end(), size_t{0});
  const auto digest = [&](size_t i) -> const Digest& { return set.photos[i].digest; };
  std::ranges::stable_sort(all, {}, digest);
  const auto same = std::ranges::unique(all, {}, digest);
  all.erase(same.begin(), same.end());
  if (all.size() > n) all.resize(n);
  return all;
}

void for_each_batch(Fs& fs, const PhotoSet& set, std::span<const size_t> photos,
                    const Preprocess& preprocess, int64_t batch,
                    const std::function<bool(const PhotoBatch&)>& each) {
  const int64_t side = preprocess.img_size;
  const bool last = preprocess.layout == Layout::kNhwc;
  const size_t values = preprocess.values();
  for (size_t begin = 0; begin < photos.size(); begin += static_cast<size_t>(batch)) {
    const auto some =
        photos.subspan(begin, std::min(static_cast<size_t>(batch), photos.size() - begin));
    std::vector<float> rows(some.size() * values);
    std::vector<uint8_t> read(some.size(), 0);
    shared_threads().parallel_for(
        static_cast<int64_t>(some.size()), 1, [&](int64_t from, int64_t to) {
          for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(to); ++i) {
            const std::string& path = set.photos[some[i]].path;
            const auto file = fs.read(join(set.root, path), limits::kPhotoFile);
            PhotoCost cost;
            read[i] = file.ok() &&
                      preprocess_photo(path, *file, preprocess, &rows[i * values], cost).ok();
          }
        });
    PhotoBatch b;
    for (size_t i = 0; i < some.size(); ++i) {
      if (read[i]) b.photos.push_back(some[i]);
    }
    if (b.photos.empty()) continue;
    const auto n = static_cast<int64_t>(b.photos.size());
    b.inputs = Tensor({DType::kF32, last ? Shape{n, side, side, 3} : Shape{n, 3, side, side}});
    float* to = b.inputs.mutable_as<float>().data();
    for (size_t i = 0; i < some.size(); ++i) {
      if (!read[i]) continue;
      std::copy_n(&rows[i * values], values, to);
      to += values;
    }
    if (!each(b)) return;
  }
}

}  // namespace ndtrain
