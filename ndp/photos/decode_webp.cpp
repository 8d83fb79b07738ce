#include <webp/decode.h>
#include <webp/demux.h>

#include <cstring>
#include <memory>
#include <string>

#include "ndp/photos/codec.h"
#include "ndp/photos/exif.h"

namespace ndtrain::ndp::codec {
namespace {

Status corrupt_webp(const char* why) { return {Code::kCorrupt, std::string("WebP: ") + why}; }

struct DeleteDemuxer {
  void operator()(WebPDemuxer* d) const { WebPDemuxDelete(d); }
};

// Finds chunks, and allocates nothing for pixels. All of the file must be there.
class WebpReader {
 public:
  explicit WebpReader(std::span<const std::byte> file)
      : data_{reinterpret_cast<const uint8_t*>(file.data()), file.size()},
        demuxer_(WebPDemux(&data_)) {}
  ~WebpReader() {
    WebPDemuxReleaseIterator(&frame_);
    WebPDemuxReleaseChunkIterator(&chunk_);
  }
  WebpReader(const WebpReader&) = delete;
  WebpReader& operator=(const WebpReader&) = delete;

  bool ok() const { return demuxer_ != nullptr; }
  int64_t width() const { return WebPDemuxGetI(demuxer_.get(), WEBP_FF_CANVAS_WIDTH); }
  int64_t height() const { return WebPDemuxGetI(demuxer_.get(), WEBP_FF_CANVAS_HEIGHT); }
  const WebPIterator* first_frame() {
    return WebPDemuxGetFrame(demuxer_.get(), 1, &frame_) != 0 ? &frame_ : nullptr;
  }
  // Valid until the next call.
  std::span<const uint8_t> chunk(const char* name) {
    WebPDemuxReleaseChunkIterator(&chunk_);
    chunk_ = {};
    if (WebPDemuxGetChunk(demuxer_.get(), name, 1, &chunk_) == 0) return {};
    return {chunk_.chunk.bytes, chunk_.chunk.size};
  }

 private:
  WebPData data_;
  std::unique_ptr<WebPDemuxer, DeleteDemuxer> demuxer_;
  WebPIterator frame_{};
  WebPChunkIterator chunk_{};
};

Status status_of(VP8StatusCode code) {
  switch (code) {
    case VP8_STATUS_OK:
      return {};
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return {Code::kUnsupported, "WebP: a feature that libwebp does not know"};
    case VP8_STATUS_OUT_OF_MEMORY:
      return {Code::kTooLarge, "WebP: out of memory"};
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return corrupt_webp("the file ends too early");
    default:
      return corrupt_webp("damaged data");
  }
}

// Onto a canvas of zeros, as libwebp's own decoder of animations does with a first frame.
Status decode_frame(const WebPIterator& frame, Image& canvas) {
  if (frame.x_offset < 0 || frame.y_offset < 0 || frame.width < 1 || frame.height < 1 ||
      frame.x_offset > canvas.width - frame.width ||
      frame.y_offset > canvas.height - frame.height) {
    return corrupt_webp("a frame outside its canvas");
  }
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) throw Error("libwebp has another ABI than its headers");
  const WebPData& data = frame.fragment;
  const VP8StatusCode seen = WebPGetFeatures(data.bytes, data.size, &config.input);
  if (seen != VP8_STATUS_OK) return status_of(seen);
  if (config.input.width != frame.width || config.input.height != frame.height) {
    return corrupt_webp("a frame of another size than it declares");
  }
  const size_t stride = canvas.stride();
  const size_t before = stride * frame.y_offset + size_t{3} * frame.x_offset;
  config.options.use_threads = 0;
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {.rgba = canvas.rgb.data() + before,
                          .stride = static_cast<int>(stride),
                          .size = canvas.rgb.size() - before};
  const VP8StatusCode code = WebPDecode(data.bytes, data.size, &config);
  WebPFreeDecBuffer(&config.output);
  return status_of(code);
}

// The canvas's size, from the first chunk alone.
Result<PhotoHeader> check_canvas(std::span<const std::byte> file) {
  WebPBitstreamFeatures f;
  const VP8StatusCode code =
      WebPGetFeatures(reinterpret_cast<const uint8_t*>(file.data()), file.size(), &f);
  if (code != VP8_STATUS_OK) return status_of(code);
  if (Status s = check_size(PhotoFormat::kWebp, f.width, f.height); !s.ok()) return s;
  return PhotoHeader{.format = PhotoFormat::kWebp, .width = f.width, .height = f.height};
}

}  // namespace

Result<PhotoHeader> read_webp_header(std::span<const std::byte> file) { return check_canvas(file); }

Result<Decoded> decode_webp(std::span<const std::byte> file, const DecodeOptions&) {
  const Result<PhotoHeader> header = check_canvas(file);
  if (!header.ok()) return header.status();
  WebpReader reader(file);
  if (!reader.ok()) return corrupt_webp("damaged, or cut short");
  if (Status s = check_size(PhotoFormat::kWebp, reader.width(), reader.height()); !s.ok()) return s;
  const WebPIterator* frame = reader.first_frame();
  if (frame == nullptr) return corrupt_webp("no frame");

  Decoded d;
  d.format = PhotoFormat::kWebp;
  d.image = Image(static_cast<int>(reader.width()), static_cast<int>(reader.height()));
  if (Status s = decode_frame(*frame, d.image); !s.ok()) return s;
  d.orientation = exif_orientation(without_exif_mark(reader.chunk("EXIF")));
  to_srgb(reader.chunk("ICCP"), d);
  return d;
}

std::string webp_library() {
  const int v = WebPGetDecoderVersion();
  return "libwebp " + std::to_string(v >> 16) + "." + std::to_string(v >> 8 & 0xff) + "." +
         std::to_string(v & 0xff);
}

}  // namespace ndtrain::ndp::codec
