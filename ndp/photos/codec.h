// The decoders behind decode.h.
#pragma once

#include <cstddef>
#include <span>

#include "framework/core/status.h"
#include "ndp/photos/decode.h"

namespace ndtrain::ndp::codec {

// kTooLarge when the declared size is beyond limits.h, kCorrupt when it is empty.
Status check_size(PhotoFormat format, int64_t width, int64_t height);

Result<PhotoHeader> read_jpeg_header(std::span<const std::byte> file);
Result<PhotoHeader> read_png_header(std::span<const std::byte> file);

// The image as stored: `orientation` is reported, not applied.
Result<Decoded> decode_jpeg(std::span<const std::byte> file, const DecodeOptions& options);
Result<Decoded> decode_png(std::span<const std::byte> file);

}  // namespace ndtrain::ndp::codec
