// What this build can decode. NDT_HEIF and the others are this file's own definitions.
#include "ndp/photos/codec.h"

namespace ndtrain::ndp {
namespace codec {
namespace {

constexpr Codec kJpegCodec{read_jpeg_header, decode_jpeg};
constexpr Codec kPngCodec{read_png_header, decode_png};
#if NDT_HEIF
constexpr Codec kHeifCodec{read_heif_header, decode_heif};
#endif
#if NDT_AVIF
constexpr Codec kAvifCodec{read_avif_header, decode_avif};
#endif
#if NDT_WEBP
constexpr Codec kWebpCodec{read_webp_header, decode_webp};
#endif
#if NDT_GIF
constexpr Codec kGifCodec{read_gif_header, decode_gif};
#endif
#if NDT_TIFF
constexpr Codec kTiffCodec{read_tiff_header, decode_tiff};
#endif

}  // namespace

const Codec* find_codec(PhotoFormat f) {
  switch (f) {
    case PhotoFormat::kJpeg:
      return &kJpegCodec;
    case PhotoFormat::kPng:
      return &kPngCodec;
#if NDT_HEIF
    case PhotoFormat::kHeic:
      return heif_decodes() ? &kHeifCodec : nullptr;
#endif
#if NDT_AVIF
    case PhotoFormat::kAvif:
      return avif_decodes() ? &kAvifCodec : nullptr;
#endif
#if NDT_WEBP
    case PhotoFormat::kWebp:
      return &kWebpCodec;
#endif
#if NDT_GIF
    case PhotoFormat::kGif:
      return &kGifCodec;
#endif
#if NDT_TIFF
    case PhotoFormat::kTiff:
      return &kTiffCodec;
#endif
    default:
      return nullptr;
  }
}

#if !NDT_LCMS
void to_srgb(std::span<const uint8_t>, Decoded&) {}
#endif

}  // namespace codec

// Of GIF and TIFF all libraries give the same: there is one way to undo their compressions, but for
// JPEG's.
std::string photo_decoders() {
  std::string text = jpeg_decoder();
#if NDT_LCMS
  text += ", " + codec::colour_library();
#endif
#if NDT_HEIF
  text += ", " + codec::heif_library();
#endif
#if NDT_AVIF
  text += ", " + codec::avif_library();
#endif
#if NDT_WEBP
  text += ", " + codec::webp_library();
#endif
  return text;
}

std::vector<PhotoLibrary> photo_libraries() {
  std::vector<PhotoLibrary> all = {
      {"JPEG", jpeg_decoder(), "NDT_JPEG", "libjpeg62-turbo-dev"},
      {"PNG", codec::png_library(), "NDT_PNG", "libpng-dev"},
      {"HEIC", "", "NDT_HEIF", "libheif-dev"},
      {"AVIF", "", "NDT_AVIF", "libavif-dev"},
      {"WebP", "", "NDT_WEBP", "libwebp-dev"},
      {"GIF", "", "NDT_GIF", "libgif-dev"},
      {"TIFF", "", "NDT_TIFF", "libtiff-dev"},
      {"colour profiles", "", "NDT_LCMS", "liblcms2-dev"},
  };
#if NDT_HEIF
  if (can_decode(PhotoFormat::kHeic)) all[2].library = codec::heif_library();
#endif
#if NDT_AVIF
  if (can_decode(PhotoFormat::kAvif)) all[3].library = codec::avif_library();
#endif
#if NDT_WEBP
  all[4].library = codec::webp_library();
#endif
#if NDT_GIF
  all[5].library = codec::gif_library();
#endif
#if NDT_TIFF
  all[6].library = codec::tiff_library();
#endif
#if NDT_LCMS
  all[7].library = codec::colour_library();
#endif
  return all;
}

}  // namespace ndtrain::ndp
