#include "ndp/jobs/photo_rows.h"

#include <atomic>

namespace ndtrain::ndp {

Result<Image> PhotoRows::decode_crop(size_t photo) const {
  const Result<std::string> file = open_(photo);
  if (!file.ok()) return file.status();
  PhotoCost cost;
  return crop_photo((*photos_)[photo].path, *file, preprocess_, cost);
}

void PhotoRows::fill(const std::vector<Photo>& photos, Engine::Open open, Progress& progress,
                     std::vector<QuarantinedPhoto>& quarantined,
                     std::map<std::string, int64_t>& skipped) {
  photos_ = &photos;
  open_ = std::move(open);
  present_.assign(photos.size(), 0);
  crops_.assign(photos.size(), Image());
  std::vector<Status> status(photos.size());
  const auto kept = std::min(photos.size(), static_cast<size_t>(free_) / values());
  progress.begin("decoding", static_cast<int64_t>(photos.size()), "photos");
  constexpr size_t kPage = 256;
  for (size_t begin = 0; begin < photos.size(); begin += kPage) {
    const size_t n = std::min(kPage, photos.size() - begin);
    shared_threads().parallel_for(static_cast<int64_t>(n), 1, [&](int64_t from, int64_t to) {
      for (size_t i = begin + static_cast<size_t>(from); i < begin + static_cast<size_t>(to); ++i) {
        Result<Image> crop = decode_crop(i);
        status[i] = crop.status();
        present_[i] = crop.ok();
        if (crop.ok() && i < kept) crops_[i] = std::move(*crop);
      }
    });
    progress.update(static_cast<int64_t>(begin + n));
  }
  progress.end();
  for (size_t i = 0; i < photos.size(); ++i) {
    if (status[i].ok()) continue;
    if (status[i].code() == Code::kUnsupported) {
      ++skipped[extension_of(photos[i].path)];
    } else {
      quarantined.push_back({photos[i].path, status[i].message()});
    }
  }
}

void PhotoRows::read(size_t photo, float* to) const {
  if (!crops_[photo].rgb.empty()) return normalize(crops_[photo], preprocess_, to);
  const Result<Image> crop = decode_crop(photo);
  if (!crop.ok())
    throw Error((*photos_)[photo].path, ": was readable before: ", crop.status().message());
  normalize(*crop, preprocess_, to);
}

void PhotoDataset::fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
                         std::span<int64_t> labels) {
  float* to = inputs[0].mutable_as<float>().data();
  shared_threads().parallel_for(
      static_cast<int64_t>(rows.size()), 1, [&](int64_t begin, int64_t end) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
          rows_.read(photos_[static_cast<size_t>(rows[i])], to + i * rows_.values());
        }
      });
  for (size_t i = 0; i < rows.size(); ++i) labels[i] = labels_[static_cast<size_t>(rows[i])];
}

}  // namespace ndtrain::ndp
