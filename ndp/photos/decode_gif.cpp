#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "ndp/photos/codec.h"

namespace ndtrain::ndp::codec {
namespace {

using Palette = std::array<std::array<uint8_t, 3>, 256>;

class GifReader {
 public:
  explicit GifReader(std::span<const std::byte> file) : rest_(file) {
    gif_ = DGifOpen(this, on_read, &error_);
  }
  ~GifReader() { DGifCloseFile(gif_, nullptr); }
  GifReader(const GifReader&) = delete;
  GifReader& operator=(const GifReader&) = delete;

  // Up to the first frame's pixels; `size` is of the canvas, which a frame beyond it makes larger.
  Status read_header(PhotoHeader& size) {
    if (gif_ == nullptr) return failed();
    GifRecordType type = UNDEFINED_RECORD_TYPE;
    while (next(type)) {
      if (type == TERMINATE_RECORD_TYPE) return {Code::kCorrupt, "GIF: no frame"};
      if (type == EXTENSION_RECORD_TYPE ? !read_extension() : DGifGetImageDesc(gif_) != GIF_OK) {
        return failed();
      }
      if (type == EXTENSION_RECORD_TYPE) continue;
      const GifImageDesc& frame = gif_->Image;
      if (Status s = check_size(PhotoFormat::kGif, frame.Width, frame.Height); !s.ok()) return s;
      const int width = std::max(gif_->SWidth, frame.Left + frame.Width);
      const int height = std::max(gif_->SHeight, frame.Top + frame.Height);
      if (Status s = check_size(PhotoFormat::kGif, width, height); !s.ok()) return s;
      size = {.format = PhotoFormat::kGif, .width = width, .height = height};
      return {};
    }
    return failed();
  }

  // Fills the canvas, and puts the frame onto it.
  Status read_frame(Image& canvas) {
    const Palette colours = palette();
    const auto& ground = colours[static_cast<size_t>(transparent_.value_or(0))];
    for (size_t i = 0; i < canvas.rgb.size(); i += 3) {
      std::memcpy(&canvas.rgb[i], ground.data(), 3);
    }
    const GifImageDesc& frame = gif_->Image;
    std::vector<GifPixelType> line(static_cast<size_t>(frame.Width));
    struct Pass {
      int first, step;
    };
    static constexpr Pass kInterlaced[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}}, kWhole[] = {{0, 1}};
    for (const Pass& p : frame.Interlace ? std::span<const Pass>(kInterlaced) : kWhole) {
      for (int y = p.first; y < frame.Height; y += p.step) {
        if (DGifGetLine(gif_, line.data(), frame.Width) != GIF_OK) return failed();
        uint8_t* to = canvas.row(frame.Top + y) + size_t{3} * frame.Left;
        for (const GifPixelType index : line) {
          std::memcpy(to, colours[index].data(), 3);
          to += 3;
        }
      }
    }
    return {};
  }

  // To the trailer, without the other frames' pixels: a file that lacks its end is refused.
  Status read_rest() {
    GifRecordType type = UNDEFINED_RECORD_TYPE;
    while (next(type)) {
      if (type == TERMINATE_RECORD_TYPE) return {};
      if (type == EXTENSION_RECORD_TYPE ? !read_extension() : !skip_frame()) break;
    }
    return failed();
  }

 private:
  static int on_read(GifFileType* gif, GifByteType* to, int n) {
    auto& self = *static_cast<GifReader*>(gif->UserData);
    const size_t take = std::min(self.rest_.size(), static_cast<size_t>(std::max(n, 0)));
    if (take > 0) std::memcpy(to, self.rest_.data(), take);
    self.rest_ = self.rest_.subspan(take);
    return static_cast<int>(take);
  }

  bool next(GifRecordType& type) { return DGifGetRecordType(gif_, &type) == GIF_OK; }

  // The last graphic control before a frame counts.
  bool read_extension() {
    int code = 0;
    GifByteType* block = nullptr;
    if (DGifGetExtension(gif_, &code, &block) != GIF_OK) return false;
    GraphicsControlBlock control;
    if (code == GRAPHICS_EXT_FUNC_CODE && block != nullptr &&
        DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK &&
        control.TransparentColor != NO_TRANSPARENT_COLOR) {
      transparent_ = control.TransparentColor;
    }
    while (block != nullptr) {
      if (DGifGetExtensionNext(gif_, &block) != GIF_OK) return false;
    }
    return true;
  }

  bool skip_frame() {
    int size = 0;
    GifByteType* block = nullptr;
    if (DGifGetImageDesc(gif_) != GIF_OK || DGifGetCode(gif_, &size, &block) != GIF_OK) {
      return false;
    }
    while (block != nullptr) {
      if (DGifGetCodeNext(gif_, &block) != GIF_OK) return false;
    }
    return true;
  }

  // As PIL: indices that the file's palette lacks are levels of grey.
  Palette palette() const {
    Palette colours;
    for (size_t i = 0; i < colours.size(); ++i) colours[i].fill(static_cast<uint8_t>(i));
    const ColorMapObject* map =
        gif_->Image.ColorMap != nullptr ? gif_->Image.ColorMap : gif_->SColorMap;
    const int known = map == nullptr ? 0 : std::min(map->ColorCount, 256);
    for (int i = 0; i < known; ++i) {
      const GifColorType& c = map->Colors[i];
      colours[static_cast<size_t>(i)] = {c.Red, c.Green, c.Blue};
    }
    return colours;
  }

  Status failed() const {
    const char* why = GifErrorString(gif_ == nullptr ? error_ : gif_->Error);
    return {Code::kCorrupt, std::string("GIF: ") + (why == nullptr ? "damaged" : why)};
  }

  std::span<const std::byte> rest_;
  GifFileType* gif_ = nullptr;
  int error_ = 0;
  std::optional<int> transparent_;
};

}  // namespace

Result<PhotoHeader> read_gif_header(std::span<const std::byte> file) {
  GifReader reader(file);
  PhotoHeader size;
  if (Status s = reader.read_header(size); !s.ok()) return s;
  return size;
}

Result<Decoded> decode_gif(std::span<const std::byte> file, const DecodeOptions&) {
  GifReader reader(file);
  PhotoHeader size;
  if (Status s = reader.read_header(size); !s.ok()) return s;
  Decoded d;
  d.format = PhotoFormat::kGif;
  d.image = Image(size.width, size.height);
  if (Status s = reader.read_frame(d.image); !s.ok()) return s;
  if (Status s = reader.read_rest(); !s.ok()) return s;
  return d;
}

std::string gif_library() {
  return "giflib " + std::to_string(GIFLIB_MAJOR) + "." + std::to_string(GIFLIB_MINOR) + "." +
         std::to_string(GIFLIB_RELEASE);
}

}  // namespace ndtrain::ndp::codec
