// Photo files to pixels. Files are untrusted: what the header declares is checked against limits.h
// before anything is allocated, and a file that is cut short or damaged is refused rather than
// half decoded. All functions are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "framework/core/status.h"
#include "ndp/photos/image.h"

namespace ndtrain::ndp {

enum class PhotoFormat : uint8_t { kUnknown, kJpeg, kPng, kHeic, kAvif, kWebp, kGif, kBmp, kTiff };

std::string_view name_of(PhotoFormat f);                      // "JPEG", …, "unknown"
bool can_decode(PhotoFormat f);                               // JPEG and PNG
PhotoFormat sniff(std::span<const std::byte> file);           // by the magic bytes alone
PhotoFormat format_of_extension(std::string_view extension);  // ".jpg", lower case

struct PhotoHeader {
  PhotoFormat format = PhotoFormat::kUnknown;
  int width = 0;  // as stored: before the orientation is applied
  int height = 0;
};

struct DecodeOptions {
  // When positive, a JPEG may be decoded at a half, a quarter or an eighth of its size (scaled DCT)
  // as long as its shorter side stays at least this long. 0: full size, the pixels PIL gives.
  int min_shorter_side = 0;
};

struct Decoded {
  Image image;  // upright
  PhotoFormat format = PhotoFormat::kUnknown;
  int orientation = 1;  // the EXIF value that was applied
  int warnings = 0;     // harmless ones
};

// Errors of both: kUnsupported (a format or variant we do not read; the message names it),
// kTooLarge (limits::kPhotoSide, kPhotoPixels), kCorrupt (damaged, cut short, or no photo at all).
Result<PhotoHeader> read_photo_header(std::span<const std::byte> file);

// "libjpeg-turbo 2001005": other versions may give other pixels.
std::string jpeg_decoder();

// Everything becomes RGB as PIL's convert("RGB") does it: alpha and tRNS are dropped, CMYK is taken
// for Adobe's inverted one. The exception is 16-bit grey PNG: the high byte, where PIL clips at
// 255.
Result<Decoded> decode(std::span<const std::byte> file, const DecodeOptions& options = {});

}  // namespace ndtrain::ndp
