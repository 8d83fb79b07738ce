#include "ndp/photos/decode.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/photos/golden_formats.h"
#include "tests/photos/photo_factory.h"
#include "tests/support/files.h"

namespace ndtrain::fuzz {
namespace {

using support::bytes_of;

bool read_header(std::string_view input) { return ndp::read_photo_header(bytes_of(input)).ok(); }

bool read_photo(std::string_view input) { return ndp::decode(bytes_of(input)).ok(); }

// Of each format and kind that this build reads.
std::vector<std::string> photos() {
  const ndp::Image image = testing::test_pattern(17, 11);
  const std::string exif = testing::exif_with_orientation(6, true);
  std::vector<std::string> seeds = {
      testing::jpeg_of(image), testing::jpeg_of(image, {.progressive = true, .exif = exif}),
      testing::jpeg_of(image, {.colours = testing::JpegSpec::Colours::kYcck, .restart_rows = 1}),
      testing::png_of(image), testing::png_of(image, exif)};
  for (const testing::GoldenFile& golden : testing::golden_files()) {
    std::string file = testing::from_hex(golden.hex);
    if (read_photo(file)) seeds.push_back(std::move(file));
  }
  return seeds;
}

}  // namespace

std::vector<FuzzTarget> photo_targets() {
  return {{"photo_header", read_header, photos}, {"photo", read_photo, photos}};
}

}  // namespace ndtrain::fuzz
