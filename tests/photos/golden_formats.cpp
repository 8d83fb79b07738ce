#include "tests/photos/golden_formats.h"

#include "framework/core/error.h"
#include "tests/photos/photo_factory.h"

namespace ndtrain::testing {
namespace {

constexpr GoldenFile kGoldenFiles[] = {
#include "tests/photos/golden_formats.inc"
#include "tests/photos/golden_heif.inc"
#include "tests/photos/golden_tiff.inc"
};

}  // namespace

std::span<const GoldenFile> golden_files() { return kGoldenFiles; }

std::string golden_file(std::string_view format, std::string_view name) {
  for (const GoldenFile& g : kGoldenFiles) {
    if (g.format == format && g.name == name) return from_hex(g.hex);
  }
  throw Error("no golden file: ", format, ", ", name);
}

}  // namespace ndtrain::testing
