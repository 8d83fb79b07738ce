#include "ndp/photos/decode.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "framework/core/limits.h"
#include "ndp/photos/codec.h"
#include "ndp/photos/exif.h"

namespace ndtrain::ndp {
namespace {

struct Named {
  std::string_view extension;
  PhotoFormat format;
};
// The first of each is the usual one.
constexpr Named kNamed[] = {
    {".jpg", PhotoFormat::kJpeg},  {".jpeg", PhotoFormat::kJpeg}, {".jpe", PhotoFormat::kJpeg},
    {".png", PhotoFormat::kPng},   {".heic", PhotoFormat::kHeic}, {".heif", PhotoFormat::kHeic},
    {".avif", PhotoFormat::kAvif}, {".webp", PhotoFormat::kWebp}, {".gif", PhotoFormat::kGif},
    {".bmp", PhotoFormat::kBmp},   {".tif", PhotoFormat::kTiff},  {".tiff", PhotoFormat::kTiff}};

bool has(std::span<const std::byte> file, size_t offset, std::string_view magic) {
  return file.size() >= offset + magic.size() &&
         std::memcmp(file.data() + offset, magic.data(), magic.size()) == 0;
}

bool is_avif_brand(std::span<const std::byte> file, size_t at) {
  return has(file, at, "avif") || has(file, at, "avis");
}

// ISO 14496-12: a box "ftyp" whose brand says what the file holds. "mif1" and "msf1" say only that
// it is an image: then one of the brands that it is compatible with does.
PhotoFormat sniff_brand(std::span<const std::byte> file) {
  constexpr size_t kBrand = 8, kCompatible = 16, kMost = 64;
  if (is_avif_brand(file, kBrand)) return PhotoFormat::kAvif;
  for (std::string_view brand : {"heic", "heix", "heim", "heis", "hevc", "hevx"}) {
    if (has(file, kBrand, brand)) return PhotoFormat::kHeic;
  }
  if (!has(file, kBrand, "mif1") && !has(file, kBrand, "msf1")) return PhotoFormat::kUnknown;
  const auto box = std::to_integer<size_t>(file[3]);  // longer ones are not read to their end
  for (size_t at = kCompatible; at + 4 <= std::min(box, kMost); at += 4) {
    if (is_avif_brand(file, at)) return PhotoFormat::kAvif;
  }
  return PhotoFormat::kHeic;
}

Status refuse(PhotoFormat format) {
  if (format == PhotoFormat::kUnknown) return {Code::kCorrupt, "not a photo: unknown file content"};
  std::string why =
      std::string(name_of(format)) + " photos are not supported (" + decodable_formats() + " are)";
  for (const PhotoLibrary& l : photo_libraries()) {
    if (l.use == name_of(format)) {
      why += "; a build with " + l.option + "=ON, which needs " + l.package + ", reads them";
    }
  }
  return {Code::kUnsupported, why};
}

}  // namespace

std::string_view name_of(PhotoFormat f) {
  switch (f) {
    case PhotoFormat::kUnknown:
      break;
    case PhotoFormat::kJpeg:
      return "JPEG";
    case PhotoFormat::kPng:
      return "PNG";
    case PhotoFormat::kHeic:
      return "HEIC";
    case PhotoFormat::kAvif:
      return "AVIF";
    case PhotoFormat::kWebp:
      return "WebP";
    case PhotoFormat::kGif:
      return "GIF";
    case PhotoFormat::kBmp:
      return "BMP";
    case PhotoFormat::kTiff:
      return "TIFF";
  }
  return "unknown";
}

bool can_decode(PhotoFormat f) { return codec::find_codec(f) != nullptr; }

std::string decodable_formats() {
  std::vector<std::string_view> names;
  for (int f = 0; f <= static_cast<int>(PhotoFormat::kTiff); ++f) {
    const auto format = static_cast<PhotoFormat>(f);
    if (can_decode(format)) names.push_back(name_of(format));
  }
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 < names.size() ? ", " : " and ";
    text += names[i];
  }
  return text;
}

PhotoFormat sniff(std::span<const std::byte> file) {
  using namespace std::string_view_literals;
  if (has(file, 0, "\xff\xd8\xff")) return PhotoFormat::kJpeg;
  if (has(file, 0, "\x89PNG\r\n\x1a\n")) return PhotoFormat::kPng;
  if (has(file, 0, "GIF87a") || has(file, 0, "GIF89a")) return PhotoFormat::kGif;
  if (has(file, 0, "RIFF") && has(file, 8, "WEBP")) return PhotoFormat::kWebp;
  for (std::string_view magic : {"II*\0"sv, "MM\0*"sv, "II+\0"sv, "MM\0+"sv}) {  // +: BigTIFF
    if (has(file, 0, magic)) return PhotoFormat::kTiff;
  }
  if (has(file, 4, "ftyp")) return sniff_brand(file);
  // "BM" alone is too little: the reserved words must be zero too.
  if (has(file, 0, "BM") && has(file, 6, "\0\0\0\0"sv)) return PhotoFormat::kBmp;
  return PhotoFormat::kUnknown;
}

PhotoFormat format_of_extension(std::string_view extension) {
  for (const Named& n : kNamed) {
    if (n.extension == extension) return n.format;
  }
  return PhotoFormat::kUnknown;
}

std::string_view extension_for(PhotoFormat f) {
  const auto* n = std::ranges::find(kNamed, f, &Named::format);
  return n == std::end(kNamed) ? "" : n->extension;
}

std::string_view media_type(PhotoFormat f) {
  switch (f) {
    case PhotoFormat::kUnknown:
      break;
    case PhotoFormat::kJpeg:
      return "image/jpeg";
    case PhotoFormat::kPng:
      return "image/png";
    case PhotoFormat::kHeic:
      return "image/heic";
    case PhotoFormat::kAvif:
      return "image/avif";
    case PhotoFormat::kWebp:
      return "image/webp";
    case PhotoFormat::kGif:
      return "image/gif";
    case PhotoFormat::kBmp:
      return "image/bmp";
    case PhotoFormat::kTiff:
      return "image/tiff";
  }
  return "";
}

bool browsers_show(PhotoFormat f) {
  return f != PhotoFormat::kUnknown && f != PhotoFormat::kHeic && f != PhotoFormat::kTiff;
}

Status codec::check_size(PhotoFormat format, int64_t width, int64_t height) {
  const std::string what = std::string(name_of(format)) + " declares " + std::to_string(width) +
                           " x " + std::to_string(height) + " pixels";
  if (width <= 0 || height <= 0) return {Code::kCorrupt, what};
  if (width > limits::kPhotoSide || height > limits::kPhotoSide) {
    return {Code::kTooLarge,
            what + ", more than " + std::to_string(limits::kPhotoSide) + " a side"};
  }
  if (width * height > limits::kPhotoPixels) {
    return {Code::kTooLarge, what + ", more than " + std::to_string(limits::kPhotoPixels)};
  }
  return {};
}

Result<PhotoHeader> read_photo_header(std::span<const std::byte> file) {
  const PhotoFormat format = sniff(file);
  const codec::Codec* codec = codec::find_codec(format);
  if (codec == nullptr) return refuse(format);
  return codec->read_header(file);
}

Result<Decoded> decode(std::span<const std::byte> file, const DecodeOptions& options) {
  const PhotoFormat format = sniff(file);
  const codec::Codec* codec = codec::find_codec(format);
  if (codec == nullptr) return refuse(format);
  Result<Decoded> decoded = codec->decode(file, options);
  if (decoded.ok()) decoded->image = upright(std::move(decoded->image), decoded->orientation);
  return decoded;
}

}  // namespace ndtrain::ndp
