#include "ndp/jobs/thumbnail.h"

#include "framework/core/base64.h"
#include "framework/core/limits.h"
#include "ndp/photos/encode.h"
#include "ndp/photos/photo_decoder.h"

namespace ndtrain::ndp {
namespace {

constexpr int kSide = 128;
constexpr int kQuality = 75;

}  // namespace

Result<std::string> thumbnail(const DecodeThumbnail& decode) {
  const Result<Image> photo =
      decode({.min_shorter_side = kSide}, {.img_size = kSide, .resize = kSide});
  if (!photo.ok()) return photo.status();
  return encode_jpeg(*photo, kQuality);
}

std::string thumbnail_uri(Fs& fs, const std::string& path) {
  const Result<std::string> file = fs.read(path, limits::kPhotoFile);
  if (!file.ok()) return "";
  const Result<std::string> small =
      thumbnail([&](const DecodeOptions& options, const Preprocess& crop) {
        PhotoCost cost;
        return decoder_in_process().decode("", *file, options, &crop, cost);
      });
  return small.ok() ? "data:image/jpeg;base64," + to_base64(*small) : "";
}

}  // namespace ndtrain::ndp
