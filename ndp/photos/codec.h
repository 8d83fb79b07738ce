// The decoders behind decode.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/core/status.h"
#include "ndp/photos/decode.h"

namespace ndtrain::ndp::codec {

// kTooLarge when the declared size is beyond limits.h, kCorrupt when it is empty.
Status check_size(PhotoFormat format, int64_t width, int64_t height);

// One format's. `decode` gives the image as stored: `orientation` is reported, not applied.
struct Codec {
  Result<PhotoHeader> (*read_header)(std::span<const std::byte> file);
  Result<Decoded> (*decode)(std::span<const std::byte> file, const DecodeOptions& options);
};

const Codec* find_codec(PhotoFormat f);  // nullptr where this build has none

Result<PhotoHeader> read_jpeg_header(std::span<const std::byte> file);
Result<PhotoHeader> read_png_header(std::span<const std::byte> file);
Result<PhotoHeader> read_heif_header(std::span<const std::byte> file);
Result<PhotoHeader> read_avif_header(std::span<const std::byte> file);
Result<PhotoHeader> read_webp_header(std::span<const std::byte> file);
Result<PhotoHeader> read_gif_header(std::span<const std::byte> file);
Result<PhotoHeader> read_tiff_header(std::span<const std::byte> file);

Result<Decoded> decode_jpeg(std::span<const std::byte> file, const DecodeOptions& options);
Result<Decoded> decode_png(std::span<const std::byte> file, const DecodeOptions& options);
Result<Decoded> decode_heif(std::span<const std::byte> file, const DecodeOptions& options);
Result<Decoded> decode_avif(std::span<const std::byte> file, const DecodeOptions& options);
Result<Decoded> decode_webp(std::span<const std::byte> file, const DecodeOptions& options);
Result<Decoded> decode_gif(std::span<const std::byte> file, const DecodeOptions& options);
Result<Decoded> decode_tiff(std::span<const std::byte> file, const DecodeOptions& options);

// Libraries' names and versions.
std::string png_library();
std::string heif_library();
std::string avif_library();
std::string webp_library();
std::string gif_library();
std::string tiff_library();
std::string colour_library();

// HEIC and AVIF are containers: whether the library has a decoder of HEVC, of AV1.
bool heif_decodes();
bool avif_decodes();

// From the colours of an embedded ICC profile to sRGB's, in place. Counts a warning where it cannot
// be read; leaves a profile that is sRGB's, is not of RGB, or, without the library, any. "": none.
void to_srgb(std::span<const uint8_t> icc, Decoded& photo);

// As PIL does it. `inks` holds four bytes a pixel; `inverted`: 255 is no ink.
void rgb_from_cmyk(std::span<const uint8_t> inks, bool inverted, uint8_t* rgb);

}  // namespace ndtrain::ndp::codec
