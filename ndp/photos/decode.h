// Photo files to pixels. Files are untrusted: what the header declares is checked against limits.h
// before anything is allocated, and a file that is cut short or damaged is refused rather than
// half decoded. All functions are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"
#include "ndp/photos/image.h"

namespace ndtrain::ndp {

enum class PhotoFormat : uint8_t { kUnknown, kJpeg, kPng, kHeic, kAvif, kWebp, kGif, kBmp, kTiff };

std::string_view name_of(PhotoFormat f);                      // "JPEG", …, "unknown"
bool can_decode(PhotoFormat f);                               // in this build, on this machine
PhotoFormat sniff(std::span<const std::byte> file);           // by the magic bytes alone
PhotoFormat format_of_extension(std::string_view extension);  // ".jpg", lower case
std::string_view extension_for(PhotoFormat f);                // ".jpg"; "" for kUnknown
std::string_view media_type(PhotoFormat f);                   // "image/jpeg"; "" for kUnknown
bool browsers_show(PhotoFormat f);

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
// The same of all decoders whose version may decide pixels; jpeg_decoder() where there is no other.
std::string photo_decoders();

// What this build reads photos with.
struct PhotoLibrary {
  std::string use;      // "WebP"
  std::string library;  // and its version; "" where this build has none
  std::string option;   // of CMake, that puts it into a build
  std::string package;  // of Debian, which that needs
};
std::vector<PhotoLibrary> photo_libraries();

// "JPEG, PNG and WebP": what can_decode().
std::string decodable_formats();

// Everything becomes RGB as PIL's convert("RGB") does it: alpha and tRNS are dropped, CMYK is taken
// for Adobe's inverted one in a JPEG. The exception is 16-bit grey: the high byte, where PIL clips
// at 255. Of an animation it is the first frame. Colours of an embedded RGB profile that is not
// sRGB's become sRGB's, as PIL's ImageCms has them.
Result<Decoded> decode(std::span<const std::byte> file, const DecodeOptions& options = {});

}  // namespace ndtrain::ndp
