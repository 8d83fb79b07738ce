#include "ndp/photos/verdict.h"

#include "framework/core/fs.h"
#include "ndp/photos/decode.h"

namespace ndtrain::ndp {
namespace {

// HEIC and AVIF share a container, and ".heif" says only that.
bool fits(PhotoFormat named, PhotoFormat found) {
  const auto heif = [](PhotoFormat f) {
    return f == PhotoFormat::kHeic || f == PhotoFormat::kAvif;
  };
  return named == found || (heif(named) && heif(found));
}

}  // namespace

std::string_view name_of(PhotoState s) {
  switch (s) {
    case PhotoState::kOk:
      return "ok";
    case PhotoState::kQuarantined:
      return "quarantined";
    case PhotoState::kSkipped:
      return "skipped";
    case PhotoState::kMissing:
      return "missing";
    case PhotoState::kDeleted:
      return "deleted";
  }
  return "unknown";
}

Verdict judge_photo(std::string_view path, std::span<const std::byte> file) {
  const std::string extension = extension_of(path);
  const PhotoFormat named = format_of_extension(extension), found = sniff(file);
  if (found != PhotoFormat::kUnknown && named != PhotoFormat::kUnknown && !fits(named, found)) {
    return {PhotoState::kQuarantined,
            "named " + extension + " but holds " + std::string(name_of(found))};
  }
  const Result<PhotoHeader> header = read_photo_header(file);
  if (header.ok()) return {};
  return {header.status().code() == Code::kUnsupported ? PhotoState::kSkipped
                                                       : PhotoState::kQuarantined,
          header.status().message()};
}

}  // namespace ndtrain::ndp
