// By libavif, as PIL reads AVIF: libheif takes other ways from luma and chroma to RGB, and its
// pixels are up to forty levels off.
#include <avif/avif.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/limits.h"
#include "ndp/photos/codec.h"

namespace ndtrain::ndp::codec {
namespace {

class AvifReader {
 public:
  AvifReader() : decoder_(avifDecoderCreate()) {
    if (decoder_ == nullptr) throw Error("libavif: out of memory");
    static_assert(limits::kPhotoPixels <= AVIF_DEFAULT_IMAGE_SIZE_LIMIT);
    decoder_->imageSizeLimit = limits::kPhotoPixels;
    decoder_->imageDimensionLimit = limits::kPhotoSide;
    decoder_->maxThreads = 1;
    decoder_->ignoreExif = AVIF_TRUE;
    decoder_->ignoreXMP = AVIF_TRUE;
    // What writers get wrong and PIL lets pass.
    decoder_->strictFlags &= ~(AVIF_STRICT_CLAP_VALID | AVIF_STRICT_PIXI_REQUIRED);
  }

  Status open(std::span<const std::byte> file) {
    avifResult r = avifDecoderSetIOMemory(
        decoder_.get(), reinterpret_cast<const uint8_t*>(file.data()), file.size());
    if (r == AVIF_RESULT_OK) r = avifDecoderParse(decoder_.get());
    if (r != AVIF_RESULT_OK) return failed(r);
    return check_size(PhotoFormat::kAvif, decoder_->image->width, decoder_->image->height);
  }

  // To the size that open() has found.
  Status decode(Image& image) {
    avifResult r = avifDecoderNextImage(decoder_.get());
    if (r != AVIF_RESULT_OK) return failed(r);
    const avifImage& from = *decoder_->image;
    if (from.width != static_cast<uint32_t>(image.width) ||
        from.height != static_cast<uint32_t>(image.height)) {
      return {Code::kCorrupt, "AVIF: a frame of another size than it declares"};
    }
    // Where there is alpha, libavif makes RGB but of all four.
    const bool alpha = from.alphaPlane != nullptr;
    std::vector<uint8_t> rgba(alpha ? image.rgb.size() / 3 * 4 : 0);
    avifRGBImage to{};
    avifRGBImageSetDefaults(&to, &from);
    to.format = alpha ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
    to.depth = 8;
    to.pixels = alpha ? rgba.data() : image.rgb.data();
    to.rowBytes = from.width * (alpha ? 4 : 3);
    r = avifImageYUVToRGB(&from, &to);
    if (r != AVIF_RESULT_OK) return failed(r);
    for (size_t i = 0; i < rgba.size() / 4; ++i) {
      std::copy_n(&rgba[4 * i], 3, &image.rgb[3 * i]);
    }
    return {};
  }

  int width() const { return static_cast<int>(decoder_->image->width); }
  int height() const { return static_cast<int>(decoder_->image->height); }
  std::span<const uint8_t> profile() const {
    return {decoder_->image->icc.data, decoder_->image->icc.size};
  }

  // The EXIF value for what the file says of turning, then mirroring; EXIF itself is not asked.
  int orientation() const {
    static constexpr int kTurned[] = {1, 8, 3, 6};  // by quarters against the clock
    static constexpr int kThenUpsideDown[] = {4, 5, 2, 7}, kThenLeftToRight[] = {2, 7, 4, 5};
    const avifImage& i = *decoder_->image;
    const int quarters = (i.transformFlags & AVIF_TRANSFORM_IROT) != 0 ? i.irot.angle & 3 : 0;
    if ((i.transformFlags & AVIF_TRANSFORM_IMIR) == 0) return kTurned[quarters];
#if AVIF_VERSION >= 1000000
    const bool left_to_right = i.imir.axis == 1;
#else
    const bool left_to_right = i.imir.mode == 1;
#endif
    return left_to_right ? kThenLeftToRight[quarters] : kThenUpsideDown[quarters];
  }

 private:
  struct Destroy {
    void operator()(avifDecoder* d) const { avifDecoderDestroy(d); }
  };

  Status failed(avifResult r) const {
    const std::string_view why = decoder_->diag.error;
    const std::string what = std::string("AVIF: ") + avifResultToString(r) +
                             (why.empty() ? "" : ": ") + std::string(why);
    switch (r) {
      case AVIF_RESULT_NOT_IMPLEMENTED:
      case AVIF_RESULT_NO_CODEC_AVAILABLE:
      case AVIF_RESULT_UNSUPPORTED_DEPTH:
        return {Code::kUnsupported, what};
      case AVIF_RESULT_OUT_OF_MEMORY:
        return {Code::kTooLarge, what};
      default:
        return {why.find("too large") == why.npos ? Code::kCorrupt : Code::kTooLarge, what};
    }
  }

  std::unique_ptr<avifDecoder, Destroy> decoder_;
};

}  // namespace

bool avif_decodes() { return avifCodecName(AVIF_CODEC_CHOICE_AUTO, AVIF_CODEC_FLAG_CAN_DECODE); }

Result<PhotoHeader> read_avif_header(std::span<const std::byte> file) {
  AvifReader reader;
  if (Status s = reader.open(file); !s.ok()) return s;
  return PhotoHeader{
      .format = PhotoFormat::kAvif, .width = reader.width(), .height = reader.height()};
}

Result<Decoded> decode_avif(std::span<const std::byte> file, const DecodeOptions&) {
  AvifReader reader;
  if (Status s = reader.open(file); !s.ok()) return s;
  Decoded d;
  d.format = PhotoFormat::kAvif;
  d.orientation = reader.orientation();
  d.image = Image(reader.width(), reader.height());
  if (Status s = reader.decode(d.image); !s.ok()) return s;
  to_srgb(reader.profile(), d);
  return d;
}

std::string avif_library() { return std::string("libavif ") + avifVersion(); }

}  // namespace ndtrain::ndp::codec
