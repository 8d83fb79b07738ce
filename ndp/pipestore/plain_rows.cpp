#include "ndp/pipestore/plain_rows.h"

#include <zstd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/thread_pool.h"
#include "ndp/pipestore/job_photos.h"

namespace ndtrain::ndp {
namespace {

std::string compressed(const std::string& bytes) {
  std::string small(ZSTD_compressBound(bytes.size()), '\0');
  const size_t n = ZSTD_compress(small.data(), small.size(), bytes.data(), bytes.size(), 3);
  if (ZSTD_isError(n)) throw Error("zstd: ", ZSTD_getErrorName(n));
  small.resize(n);
  return small;
}

}  // namespace

Result<JobRows::Made> crop_rows(const PhotoInventory& files, const StoreInventory& photos,
                                std::span<const size_t> places, CropCache& kept,
                                const Preprocess& preprocess, PhotoDecoder& decoder, bool packed) {
  JobRows::Made made;
  std::vector<size_t> missing;
  std::ranges::copy_if(places, std::back_inserter(missing),
                       [&](size_t p) { return !kept.has(photos.photos[p].digest); });
  JobPhotos read(files, photos, missing);
  std::vector<std::string> rows(places.size());
  std::vector<Status> reasons(places.size());
  std::vector<PhotoCost> costs(places.size());
  shared_threads().parallel_for(
      static_cast<int64_t>(places.size()), 1, [&](int64_t from, int64_t to) {
        for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(to); ++i) {
          const StorePhoto& photo = photos.photos[places[i]];
          const auto image = [&]() -> Result<Image> {
            if (std::optional<Image> crop = kept.get(photo.digest)) return std::move(*crop);
            const Result<std::string> file = read.read(places[i]);
            if (!file.ok()) return file.status();
            Result<Image> made_now = crop_photo(photo.path, *file, preprocess, costs[i], decoder);
            if (made_now.ok()) kept.put(photo.digest, *made_now);
            return made_now;
          }();
          if (!image.ok()) {
            reasons[i] = image.status();
            continue;
          }
          rows[i].assign(image->rgb.begin(), image->rgb.end());
          if (packed) rows[i] = compressed(rows[i]);
        }
      });
  for (size_t i = 0; i < places.size(); ++i) {
    if (reasons[i].code() == Code::kUnavailable) return reasons[i];
    made.stages["decode"] += costs[i].decode_s;
    made.stages["resize"] += costs[i].resize_s;
    if (rows[i].empty()) {
      made.bad.push_back({places[i], reasons[i].message()});
    } else {
      made.rows.push_back(std::move(rows[i]));
    }
  }
  return made;
}

Result<JobRows::Made> file_rows(const PhotoInventory& files, const StoreInventory& photos,
                                std::span<const size_t> places) {
  JobRows::Made made;
  JobPhotos read(files, photos, places);
  const auto start = std::chrono::steady_clock::now();
  for (const size_t place : places) {
    Result<std::string> file = read.read(place);
    if (file.status().code() == Code::kUnavailable) return file.status();
    if (!file.ok()) {
      made.bad.push_back({place, file.status().message()});
    } else if (file->empty()) {
      made.bad.push_back({place, "an empty file"});
    } else {
      made.rows.push_back(std::move(*file));
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  made.stages["load"] += took.count();
  return made;
}

}  // namespace ndtrain::ndp
