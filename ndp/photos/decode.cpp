#include "ndp/photos/decode.h"

#include <cstring>
#include <string>

#include "framework/core/limits.h"
#include "ndp/photos/codec.h"
#include "ndp/photos/exif.h"

namespace ndtrain::ndp {
namespace {

bool has(std::span<const std::byte> file, size_t offset, std::string_view magic) {
  return file.size() >= offset + magic.size() &&
         std::memcmp(file.data() + offset, magic.data(), magic.size()) == 0;
}

// ISO 14496-12: a box "ftyp" whose brand says what the file holds.
PhotoFormat sniff_brand(std::span<const std::byte> file) {
  for (std::string_view brand : {"avif", "avis"}) {
    if (has(file, 8, brand)) return PhotoFormat::kAvif;
  }
  for (std::string_view brand : {"heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1"}) {
    if (has(file, 8, brand)) return PhotoFormat::kHeic;
  }
  return PhotoFormat::kUnknown;
}

Status refuse(PhotoFormat format) {
  if (format == PhotoFormat::kUnknown) return {Code::kCorrupt, "not a photo: unknown file content"};
  return {Code::kUnsupported,
          std::string(name_of(format)) + " photos are not supported (JPEG and PNG are)"};
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

bool can_decode(PhotoFormat f) { return f == PhotoFormat::kJpeg || f == PhotoFormat::kPng; }

PhotoFormat sniff(std::span<const std::byte> file) {
  using namespace std::string_view_literals;
  if (has(file, 0, "\xff\xd8\xff")) return PhotoFormat::kJpeg;
  if (has(file, 0, "\x89PNG\r\n\x1a\n")) return PhotoFormat::kPng;
  if (has(file, 0, "GIF87a") || has(file, 0, "GIF89a")) return PhotoFormat::kGif;
  if (has(file, 0, "RIFF") && has(file, 8, "WEBP")) return PhotoFormat::kWebp;
  if (has(file, 0, "II*\0"sv) || has(file, 0, "MM\0*"sv)) return PhotoFormat::kTiff;
  if (has(file, 4, "ftyp")) return sniff_brand(file);
  // "BM" alone is too little: the reserved words must be zero too.
  if (has(file, 0, "BM") && has(file, 6, "\0\0\0\0"sv)) return PhotoFormat::kBmp;
  return PhotoFormat::kUnknown;
}

PhotoFormat format_of_extension(std::string_view extension) {
  struct Known {
    std::string_view extension;
    PhotoFormat format;
  };
  static constexpr Known kKnown[] = {
      {".jpg", PhotoFormat::kJpeg},  {".jpeg", PhotoFormat::kJpeg}, {".jpe", PhotoFormat::kJpeg},
      {".png", PhotoFormat::kPng},   {".heic", PhotoFormat::kHeic}, {".heif", PhotoFormat::kHeic},
      {".avif", PhotoFormat::kAvif}, {".webp", PhotoFormat::kWebp}, {".gif", PhotoFormat::kGif},
      {".bmp", PhotoFormat::kBmp},   {".tif", PhotoFormat::kTiff},  {".tiff", PhotoFormat::kTiff}};
  for (const Known& k : kKnown) {
    if (k.extension == extension) return k.format;
  }
  return PhotoFormat::kUnknown;
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
  switch (const PhotoFormat format = sniff(file)) {
    case PhotoFormat::kJpeg:
      return codec::read_jpeg_header(file);
    case PhotoFormat::kPng:
      return codec::read_png_header(file);
    default:
      return refuse(format);
  }
}

Result<Decoded> decode(std::span<const std::byte> file, const DecodeOptions& options) {
  const PhotoFormat format = sniff(file);
  if (!can_decode(format)) return refuse(format);
  Result<Decoded> decoded =
      format == PhotoFormat::kJpeg ? codec::decode_jpeg(file, options) : codec::decode_png(file);
  if (decoded.ok()) decoded->image = upright(std::move(decoded->image), decoded->orientation);
  return decoded;
}

}  // namespace ndtrain::ndp
