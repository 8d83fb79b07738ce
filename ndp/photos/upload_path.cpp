#include "ndp/photos/upload_path.h"

#include <algorithm>
#include <span>

#include "framework/core/fs.h"
#include "ndp/photos/decode.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kHexDigits = 2 * sizeof(Digest);

}  // namespace

std::string upload_path(const Digest& photo, std::string_view extension) {
  const std::string hex = to_hex(photo);
  return join(join(kUploadDirectory, hex.substr(0, 2)), hex + std::string(extension));
}

std::string upload_path_of(const Digest& photo, std::string_view file) {
  const PhotoFormat format = sniff(std::as_bytes(std::span(file)));
  return upload_path(photo, extension_for(can_decode(format) ? format : PhotoFormat::kJpeg));
}

std::string upload_key(std::string_view upload_path) {
  return join(kUploadDirectory, name_of_path(upload_path));
}

bool is_upload_path(std::string_view path) {
  const std::string name = name_of_path(path), folder = parent_of(path);
  const std::string extension = extension_of(name);
  if (name.size() != kHexDigits + extension.size()) return false;
  const PhotoFormat format = format_of_extension(extension);
  if (format == PhotoFormat::kUnknown || extension != extension_for(format)) return false;
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (!std::all_of(name.begin(), name.begin() + kHexDigits, is_hex)) return false;
  return name_of_path(folder) == kUploadDirectory ||
         (name_of_path(folder) == name.substr(0, 2) &&
          name_of_path(parent_of(folder)) == kUploadDirectory);
}

std::optional<Digest> photo_of_upload_path(std::string_view path) {
  if (!is_upload_path(path)) return std::nullopt;
  return digest_from_hex(name_of_path(path).substr(0, kHexDigits));
}

}  // namespace ndtrain::ndp
