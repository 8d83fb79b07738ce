#include <tiffio.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ndp/photos/codec.h"
#include "ndp/photos/tiff_file.h"
#include "ndp/photos/tiff_samples.h"

namespace ndtrain::ndp::codec {
namespace {

Status read_strips(TiffFile& file, const TiffLayout& layout, TiffPixels& pixels) {
  std::vector<uint8_t> line(static_cast<size_t>(TIFFScanlineSize64(file.get())));
  if (line.size() < pixels.row_bytes(layout.width)) return {Code::kCorrupt, "TIFF: short rows"};
  for (int plane = 0; plane < layout.planes(); ++plane) {
    for (int y = 0; y < layout.height; ++y) {
      if (TIFFReadScanline(file.get(), line.data(), static_cast<uint32_t>(y),
                           static_cast<uint16_t>(plane)) < 0 ||
          file.damaged()) {
        return file.status();
      }
      pixels.put(line.data(), plane, 0, y, layout.width);
    }
  }
  return {};
}

Status read_tiles(TiffFile& file, const TiffLayout& layout, TiffPixels& pixels) {
  const uint32_t width = file.field<uint32_t>(TIFFTAG_TILEWIDTH);
  const uint32_t height = file.field<uint32_t>(TIFFTAG_TILELENGTH);
  // A tile may reach beyond the image, but not make it a matter of another size.
  constexpr uint64_t kSmall = uint64_t{1} << 22;
  const uint64_t most = std::max(
      kSmall, 4 * static_cast<uint64_t>(layout.width) * static_cast<uint64_t>(layout.height));
  if (width == 0 || height == 0 || uint64_t{width} * height > most) {
    return {Code::kCorrupt,
            "TIFF: tiles of " + std::to_string(width) + " x " + std::to_string(height) + " pixels"};
  }
  std::vector<uint8_t> tile(static_cast<size_t>(TIFFTileSize64(file.get())));
  const auto row_bytes = static_cast<size_t>(TIFFTileRowSize64(file.get()));
  if (row_bytes < pixels.row_bytes(static_cast<int>(width)) || tile.size() / height < row_bytes) {
    return {Code::kCorrupt, "TIFF: short tiles"};
  }
  const auto w = static_cast<int64_t>(width), h = static_cast<int64_t>(height);
  for (int plane = 0; plane < layout.planes(); ++plane) {
    for (int64_t y = 0; y < layout.height; y += h) {
      for (int64_t x = 0; x < layout.width; x += w) {
        if (TIFFReadTile(file.get(), tile.data(), static_cast<uint32_t>(x),
                         static_cast<uint32_t>(y), 0, static_cast<uint16_t>(plane)) < 0 ||
            file.damaged()) {
          return file.status();
        }
        const auto columns = static_cast<int>(std::min(w, layout.width - x));
        for (int64_t r = 0; r < std::min(h, layout.height - y); ++r) {
          pixels.put(tile.data() + static_cast<size_t>(r) * row_bytes, plane, static_cast<int>(x),
                     static_cast<int>(y + r), columns);
        }
      }
    }
  }
  return {};
}

// Luma and chroma that no JPEG decoder makes RGB of: libtiff does, four bytes a pixel.
Status read_luma_chroma(TiffFile& file, const TiffLayout& layout, Image& image) {
  char why[1024] = "";
  if (TIFFRGBAImageOK(file.get(), why) == 0)
    return {Code::kUnsupported, std::string("TIFF: ") + why};
  std::vector<uint32_t> raster(image.rgb.size() / 3);
  // Into the orientation that the file has already.
  if (TIFFReadRGBAImageOriented(file.get(), static_cast<uint32_t>(layout.width),
                                static_cast<uint32_t>(layout.height), raster.data(),
                                layout.orientation, 1) == 0 ||
      file.damaged()) {
    return file.status();
  }
  for (size_t i = 0; i < raster.size(); ++i) {
    image.rgb[3 * i] = static_cast<uint8_t>(TIFFGetR(raster[i]));
    image.rgb[3 * i + 1] = static_cast<uint8_t>(TIFFGetG(raster[i]));
    image.rgb[3 * i + 2] = static_cast<uint8_t>(TIFFGetB(raster[i]));
  }
  return {};
}

}  // namespace

Result<PhotoHeader> read_tiff_header(std::span<const std::byte> bytes) {
  TiffFile file(bytes);
  const Result<TiffLayout> layout = read_layout(file);
  if (!layout.ok()) return layout.status();
  return PhotoHeader{
      .format = PhotoFormat::kTiff, .width = layout->width, .height = layout->height};
}

Result<Decoded> decode_tiff(std::span<const std::byte> bytes, const DecodeOptions&) {
  TiffFile file(bytes);
  const Result<TiffLayout> layout = read_layout(file);
  if (!layout.ok()) return layout.status();
  if (!file.is_whole()) return Status(Code::kCorrupt, "TIFF: the file ends too early");
  Decoded d;
  d.format = PhotoFormat::kTiff;
  d.orientation = layout->orientation;
  d.image = Image(layout->width, layout->height);
  Status s;
  if (layout->photometric == PHOTOMETRIC_YCBCR) {
    s = read_luma_chroma(file, *layout, d.image);
  } else {
    TiffPixels pixels(*layout, d.image);
    s = TIFFIsTiled(file.get()) != 0 ? read_tiles(file, *layout, pixels)
                                     : read_strips(file, *layout, pixels);
    if (s.ok()) pixels.finish();
  }
  if (!s.ok()) return s;
  d.warnings = file.warnings();
  if (layout->photometric != PHOTOMETRIC_SEPARATED) to_srgb(file.profile(), d);
  return d;
}

std::string tiff_library() {
  const std::string text = TIFFGetVersion();  // "LIBTIFF, Version 4.5.0\nCopyright …"
  const size_t from = text.find_first_of("0123456789");
  return "libtiff " + text.substr(from, text.find_first_not_of("0123456789.", from) - from);
}

}  // namespace ndtrain::ndp::codec
