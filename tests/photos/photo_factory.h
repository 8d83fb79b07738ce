// Photos for tests, good and bad, made in code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ndp/photos/image.h"
#include "tests/support/files.h"

namespace ndtrain::testing {
using namespace ndp;

// A pattern without symmetry and with detail in every place; the same as golden.py's test_pattern.
Image test_pattern(int width, int height);
Image flat(int width, int height, uint8_t r, uint8_t g, uint8_t b);

struct JpegSpec {
  enum class Colours { kRgb, kGrey, kCmyk, kYcck };  // the last two stored inverted, as Adobe does
  Colours colours = Colours::kRgb;
  int quality = 90;
  bool progressive = false;
  int restart_rows = 0;   // 0: no restart markers
  std::string exif = {};  // a TIFF block; "" for none
};

std::string jpeg_of(const Image& image, const JpegSpec& spec = {});

// `exif` goes into an eXIf chunk.
std::string png_of(const Image& image, std::string_view exif = {});
// A PNG file of one chunk after the other; `chunks` are whole ones.
std::string png_chunk(std::string_view type, std::string_view data);
std::string png_header(uint32_t width, uint32_t height, int depth = 8, int colour_type = 2);

std::string exif_with_orientation(int orientation, bool little_endian);

// The same JPEG whose header declares another size.
std::string jpeg_declaring(std::string jpeg, int width, int height);
std::string without_last(std::string file, size_t bytes);
std::string from_hex(std::string_view hex);

using support::bytes_of;

}  // namespace ndtrain::testing
