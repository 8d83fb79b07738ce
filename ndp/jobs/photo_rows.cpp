#include "ndp/jobs/photo_rows.h"

namespace ndtrain::ndp {

Result<Image> PhotoRows::decode_crop(size_t photo) const {
  const Result<std::string> file = open_(photo);
  if (!file.ok()) return file.status();
  PhotoCost cost;
  return crop_photo((*photos_)[photo].path, *file, preprocess_, cost);
}

std::vector<uint8_t> PhotoRows::kept(size_t photos,
                                     const std::function<bool(size_t)>& keeps) const {
  size_t room = static_cast<size_t>(free_) / values();
  std::vector<uint8_t> kept(photos);
  for (size_t i = 0; i < photos && room > 0; ++i) {
    kept[i] = !keeps || keeps(i);
    room -= kept[i];
  }
  return kept;
}

void PhotoRows::fill(const std::vector<Photo>& photos, Engine::Open open, Progress& progress,
                     std::vector<QuarantinedPhoto>& quarantined,
                     std::map<std::string, int64_t>& skipped,
                     const std::function<bool(size_t photo)>& keeps) {
  photos_ = &photos;
  open_ = std::move(open);
  present_.assign(photos.size(), 0);
  crops_.assign(photos.size(), Image());
  std::vector<Status> status(photos.size());
  const std::vector<uint8_t> is_kept = kept(photos.size(), keeps);
  progress.begin("decoding", static_cast<int64_t>(photos.size()), "photos");
  constexpr size_t kPage = 256;
  for (size_t begin = 0; begin < photos.size(); begin += kPage) {
    const size_t n = std::min(kPage, photos.size() - begin);
    shared_threads().parallel_for(static_cast<int64_t>(n), 1, [&](int64_t from, int64_t to) {
      for (size_t i = begin + static_cast<size_t>(from); i < begin + static_cast<size_t>(to); ++i) {
        Result<Image> crop = decode_crop(i);
        status[i] = crop.status();
        present_[i] = crop.ok();
        if (crop.ok() && is_kept[i]) crops_[i] = std::move(*crop);
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
  normalize(readable(photo, decode_crop(photo)), preprocess_, to);
}

Image PhotoRows::crop_of(size_t photo) const {
  if (!crops_[photo].rgb.empty()) return crops_[photo];
  return readable(photo, decode_crop(photo));
}

Image PhotoRows::whole(size_t photo) const {
  const Result<std::string> file = open_(photo);
  if (!file.ok()) return readable(photo, file.status());
  PhotoCost cost;
  return readable(photo, decode_photo((*photos_)[photo].path, *file, {}, cost));
}

Image PhotoRows::readable(size_t photo, Result<Image> image) const {
  if (image.ok()) return std::move(*image);
  throw Error((*photos_)[photo].path, ": was readable before: ", image.status().message());
}

PhotoDataset::PhotoDataset(const PhotoRows& rows, std::vector<size_t> photos,
                           std::vector<int64_t> labels, Read read)
    : values_(rows.values()),
      photos_(std::move(photos)),
      labels_(std::move(labels)),
      read_(std::move(read)) {
  if (!read_) read_ = [&rows](size_t photo, float* to) { rows.read(photo, to); };
}

void PhotoDataset::fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
                         std::span<int64_t> labels) {
  float* to = inputs[0].mutable_as<float>().data();
  shared_threads().parallel_for(
      static_cast<int64_t>(rows.size()), 1, [&](int64_t begin, int64_t end) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
          read_(photos_[static_cast<size_t>(rows[i])], to + i * values_);
        }
      });
  for (size_t i = 0; i < rows.size(); ++i) labels[i] = labels_[static_cast<size_t>(rows[i])];
}

}  // namespace ndtrain::ndp
