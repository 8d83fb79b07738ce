#include "tests/photos/photo_factory.h"

#include <zlib.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "framework/core/error.h"

// clang-format off: jpeglib.h needs <cstdio> before it
#include <jpeglib.h>
// clang-format on

namespace ndtrain::testing {
using namespace ndp;

namespace {

void put_u16(std::string& to, uint32_t v) {
  to += static_cast<char>(v >> 8);
  to += static_cast<char>(v);
}

void put_u32(std::string& to, uint32_t v) {
  put_u16(to, v >> 16);
  put_u16(to, v & 0xffff);
}

struct Encoding {
  int components;
  J_COLOR_SPACE in, stored;
};

Encoding encoding_of(JpegSpec::Colours c) {
  switch (c) {
    case JpegSpec::Colours::kGrey:
      return {1, JCS_GRAYSCALE, JCS_GRAYSCALE};
    case JpegSpec::Colours::kCmyk:
      return {4, JCS_CMYK, JCS_CMYK};
    case JpegSpec::Colours::kYcck:
      return {4, JCS_CMYK, JCS_YCCK};
    default:
      return {3, JCS_RGB, JCS_YCbCr};
  }
}

// Inverted ink: no black, so each ink is the colour itself.
std::vector<uint8_t> row_of(const uint8_t* rgb, int width, int components) {
  std::vector<uint8_t> row;
  for (int x = 0; x < width; ++x, rgb += 3) {
    row.insert(row.end(), rgb, rgb + (components == 1 ? 1 : 3));
    if (components == 4) row.push_back(255);
  }
  return row;
}

}  // namespace

Image test_pattern(int width, int height) {
  Image image(width, height);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < 3; ++c) {
        const int64_t v = x * x * 3 + y * y * 5 + x * y * 7 + c * 91 + ((x / 9 + y / 7) % 2) * 120;
        image.row(static_cast<int>(y))[3 * x + c] = static_cast<uint8_t>(v);
      }
    }
  }
  return image;
}

Image flat(int width, int height, uint8_t r, uint8_t g, uint8_t b) {
  Image image(width, height);
  for (size_t i = 0; i < image.rgb.size(); i += 3) {
    image.rgb[i] = r;
    image.rgb[i + 1] = g;
    image.rgb[i + 2] = b;
  }
  return image;
}

std::string jpeg_of(const Image& image, const JpegSpec& spec) {
  jpeg_compress_struct c{};
  jpeg_error_mgr errors;
  c.err = jpeg_std_error(&errors);
  jpeg_create_compress(&c);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT: jpeglib's type
  jpeg_mem_dest(&c, &bytes, &size);
  const Encoding e = encoding_of(spec.colours);
  c.image_width = image.width;
  c.image_height = image.height;
  c.input_components = e.components;
  c.in_color_space = e.in;
  jpeg_set_defaults(&c);
  jpeg_set_colorspace(&c, e.stored);
  jpeg_set_quality(&c, spec.quality, TRUE);
  if (spec.progressive) jpeg_simple_progression(&c);
  c.restart_in_rows = spec.restart_rows;
  jpeg_start_compress(&c, TRUE);
  if (!spec.exif.empty()) {
    const std::string marker = std::string("Exif\0\0", 6) + spec.exif;
    jpeg_write_marker(&c, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(marker.data()),
                      static_cast<unsigned>(marker.size()));
  }
  for (int y = 0; y < image.height; ++y) {
    std::vector<uint8_t> row = row_of(image.row(y), image.width, e.components);
    JSAMPROW rows[] = {row.data()};
    jpeg_write_scanlines(&c, rows, 1);
  }
  jpeg_finish_compress(&c);
  jpeg_destroy_compress(&c);
  std::string file(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return file;
}

std::string png_chunk(std::string_view type, std::string_view data) {
  std::string body(type);
  body += data;
  std::string chunk;
  put_u32(chunk, static_cast<uint32_t>(data.size()));
  chunk += body;
  put_u32(chunk, static_cast<uint32_t>(
                     crc32(0, reinterpret_cast<const Bytef*>(body.data()), body.size())));
  return chunk;
}

std::string png_header(uint32_t width, uint32_t height, int depth, int colour_type) {
  std::string data;
  put_u32(data, width);
  put_u32(data, height);
  data += static_cast<char>(depth);
  data += static_cast<char>(colour_type);
  data += std::string(3, '\0');
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", data);
}

std::string png_of(const Image& image, std::string_view exif) {
  std::string raw;
  for (int y = 0; y < image.height; ++y) {
    raw += '\0';
    raw.append(reinterpret_cast<const char*>(image.row(y)), image.stride());
  }
  uLongf size = compressBound(raw.size());
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(raw.data()), raw.size());
  packed.resize(size);
  std::string file = png_header(image.width, image.height);
  if (!exif.empty()) file += png_chunk("eXIf", exif);
  return file + png_chunk("IDAT", packed) + png_chunk("IEND", {});
}

std::string exif_with_orientation(int orientation, bool little_endian) {
  // Header, an IFD of two entries (ImageWidth before it, as tags are sorted), no next IFD.
  std::string big("MM\0*\0\0\0\x08", 8);
  put_u16(big, 2);
  for (auto [tag, value] : {std::pair{0x0100, 64}, std::pair{0x0112, orientation}}) {
    put_u16(big, tag);
    put_u16(big, 3);
    put_u32(big, 1);
    put_u16(big, value);
    put_u16(big, 0);
  }
  put_u32(big, 0);
  if (!little_endian) return big;
  std::string little("II*\0\x08\0\0\0", 8);
  auto swapped = [&](size_t at, size_t n) {
    little.append(big.rbegin() + (big.size() - at - n), big.rbegin() + (big.size() - at));
  };
  swapped(8, 2);
  for (size_t entry = 10; entry < 34; entry += 12) {
    swapped(entry, 2);
    swapped(entry + 2, 2);
    swapped(entry + 4, 4);
    swapped(entry + 8, 2);
    swapped(entry + 10, 2);
  }
  swapped(34, 4);
  return little;
}

std::string jpeg_declaring(std::string jpeg, int width, int height) {
  for (size_t at = 2; at + 9 < jpeg.size();) {
    const auto marker = static_cast<uint8_t>(jpeg[at + 1]);
    if (marker >= 0xc0 && marker <= 0xc2) {
      std::string size;
      put_u16(size, height);
      put_u16(size, width);
      return jpeg.replace(at + 5, 4, size);
    }
    at += 2 + (static_cast<uint8_t>(jpeg[at + 2]) << 8) + static_cast<uint8_t>(jpeg[at + 3]);
  }
  throw Error("jpeg_declaring: no frame header");
}

std::string without_last(std::string file, size_t bytes) {
  file.resize(file.size() - bytes);
  return file;
}

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

}  // namespace ndtrain::testing
