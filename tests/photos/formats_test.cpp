// Formats besides JPEG and PNG, and colour profiles in all. What this build does not read is left
// out, and named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "framework/core/hash.h"
#include "framework/core/limits.h"
#include "framework/core/rng.h"
#include "ndp/photos/decode.h"
#include "tests/photos/golden_formats.h"
#include "tests/photos/photo_factory.h"

namespace ndtrain::ndp {
namespace {

using testing::bytes_of;
using testing::from_hex;
using testing::golden_file;
using testing::GoldenFile;
using ::testing::HasSubstr;
using testing::jpeg_of;
using testing::test_pattern;

bool converts_colours() {
  for (const PhotoLibrary& l : photo_libraries()) {
    if (l.use == "colour profiles") return !l.library.empty();
  }
  return false;
}

bool is_read(const GoldenFile& g) {
  if (g.name.starts_with("wide colours") && !converts_colours()) return false;
  return g.width > 0 && can_decode(sniff(bytes_of(from_hex(g.hex))));
}

std::string hex_of(const Image& image) {
  return to_hex({reinterpret_cast<const uint8_t*>(image.rgb.data()), image.rgb.size()});
}

// The greatest difference, in levels.
int difference(const Image& image, std::string_view hex) {
  const std::string want = from_hex(hex);
  if (want.size() != image.rgb.size()) return 256;
  int worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    worst = std::max(worst, std::abs(image.rgb[i] - static_cast<uint8_t>(want[i])));
  }
  return worst;
}

TEST(Formats, EveryKindOfFileGivesThePixelsPilGives) {
  for (const GoldenFile& g : testing::golden_files()) {
    if (!is_read(g)) continue;
    SCOPED_TRACE(std::string(g.format) + ", " + std::string(g.name));
    const std::string file = from_hex(g.hex);
    const Result<Decoded> d = decode(bytes_of(file));
    ASSERT_TRUE(d.ok()) << d.status().message();
    EXPECT_EQ(name_of(d->format), g.format);
    EXPECT_EQ(d->image.width, g.width);
    EXPECT_EQ(d->image.height, g.height);
    if (g.pixels.size() == 2 * sizeof(Digest)) {
      const std::string_view pixels(reinterpret_cast<const char*>(d->image.rgb.data()),
                                    d->image.rgb.size());
      EXPECT_EQ(to_hex(sha256(pixels)), g.pixels);
    } else {
      EXPECT_LE(difference(d->image, g.pixels), 2);
    }
    EXPECT_EQ(d->warnings, 0);
    const Result<PhotoHeader> header = read_photo_header(bytes_of(file));
    ASSERT_TRUE(header.ok()) << header.status().message();
    EXPECT_EQ(header->width * header->height, g.width * g.height);
  }
}

TEST(Formats, EveryPrefixIsRefused) {
  for (const GoldenFile& g : testing::golden_files()) {
    if (!is_read(g)) continue;
    const std::string file = from_hex(g.hex);
    for (size_t n = 0; n < file.size(); ++n) {
      ASSERT_EQ(decode(bytes_of(file.substr(0, n))).status().code(), Code::kCorrupt)
          << g.format << ", " << g.name << ": " << n << " of " << file.size() << " bytes";
    }
  }
}

TEST(Formats, WhatABuildLacksIsNamedWithItsOption) {
  const std::string bmp("BM\x40\0\0\0\0\0\0\0\x36\0\0\0", 14);
  const Status s = decode(bytes_of(bmp)).status();
  EXPECT_EQ(s.code(), Code::kUnsupported);
  EXPECT_THAT(s.message(), HasSubstr("BMP photos are not supported (JPEG, PNG"));
  for (const GoldenFile& g : testing::golden_files()) {
    const std::string file = from_hex(g.hex);
    if (g.width == 0 || can_decode(sniff(bytes_of(file)))) continue;
    const Status missing = decode(bytes_of(file)).status();
    EXPECT_EQ(missing.code(), Code::kUnsupported);
    EXPECT_THAT(missing.message(), HasSubstr(std::string(g.format)));
    EXPECT_THAT(missing.message(), HasSubstr("=ON, which needs lib"));
  }
}

TEST(Formats, ALibraryIsListedForAllThatCanBeRead) {
  int read = 0;
  for (const PhotoLibrary& l : photo_libraries()) {
    read += l.use != "colour profiles" && !l.library.empty();
    EXPECT_NE(l.option, "");
    EXPECT_THAT(l.package, HasSubstr("lib"));
  }
  int decodable = 0;
  for (int f = 0; f <= static_cast<int>(PhotoFormat::kTiff); ++f) {
    decodable += can_decode(static_cast<PhotoFormat>(f));
  }
  EXPECT_EQ(read, decodable);
  EXPECT_THAT(photo_decoders(), HasSubstr(jpeg_decoder()));
}

// A WebP file of one chunk that declares a canvas, a GIF and a TIFF of no more than their sizes.
std::vector<std::string> files_declaring(uint32_t side) {
  const auto le = [](uint32_t v, int bytes) {
    std::string s;
    for (int i = 0; i < bytes; ++i) s += static_cast<char>(v >> 8 * i);
    return s;
  };
  std::string canvas = std::string("VP8X\x0a\0\0\0\x02\0\0\0", 12) + le(side - 1, 3) + le(0, 3);
  std::string entries;
  for (const auto& [tag, value] : {std::pair{256U, side},
                                   {257U, 1U},
                                   {258U, 8U},
                                   {259U, 1U},
                                   {262U, 1U},
                                   {273U, 8U},
                                   {277U, 1U},
                                   {278U, 1U},
                                   {279U, side}}) {
    entries += le(tag, 2) + le(4, 2) + le(1, 4) + le(value, 4);
  }
  return {"RIFF" + le(static_cast<uint32_t>(canvas.size()) + 4, 4) + "WEBP" + canvas,
          "GIF89a" + le(side, 2) + le(1, 2) + std::string(3, '\0') + "," + le(0, 4) + le(1, 2) +
              le(1, 2) + std::string("\0\2", 2),
          std::string("II*\0\x08\0\0\0", 8) + le(9, 2) + entries + le(0, 4)};
}

TEST(Formats, DeclaredSizesAreCheckedBeforeAnythingIsAllocated) {
  const auto side = static_cast<uint32_t>(limits::kPhotoSide);
  for (const uint32_t declared : {side - 1, side, side + 1}) {
    for (const std::string& file : files_declaring(declared)) {
      if (!can_decode(sniff(bytes_of(file)))) continue;
      EXPECT_EQ(read_photo_header(bytes_of(file)).status().code(),
                declared > side ? Code::kTooLarge : Code::kOk)
          << name_of(sniff(bytes_of(file))) << " of " << declared;
    }
  }
}

std::string jpeg_with_profile(std::string_view icc) {
  const size_t n = icc.size() + 16;
  std::string file = jpeg_of(test_pattern(40, 24));
  std::string marker = "\xff\xe2";
  marker += {static_cast<char>(n >> 8), static_cast<char>(n)};
  return file.insert(2, marker + std::string("ICC_PROFILE\0\1\1", 14) + std::string(icc));
}

TEST(ColourProfile, ThatOfSrgbChangesNoByte) {
  const Result<Decoded> plain = decode(bytes_of(jpeg_of(test_pattern(40, 24))));
  const Result<Decoded> d =
      decode(bytes_of(jpeg_with_profile(golden_file("profile", "sRGB's own"))));
  ASSERT_TRUE(plain.ok() && d.ok());
  EXPECT_EQ(hex_of(d->image), hex_of(plain->image));
  EXPECT_EQ(d->warnings, 0);
}

TEST(ColourProfile, OneThatCannotBeReadIsCountedAndIgnored) {
  if (!converts_colours()) GTEST_SKIP() << "this build reads no profiles";
  const Result<Decoded> plain = decode(bytes_of(jpeg_of(test_pattern(40, 24))));
  const std::string icc = golden_file("profile", "wide");
  EXPECT_NE(hex_of(decode(bytes_of(jpeg_with_profile(icc))).or_throw().image),
            hex_of(plain->image));
  for (const std::string& bad : {icc.substr(0, icc.size() / 2), std::string(200, 'x')}) {
    for (int twice = 0; twice < 2; ++twice) {
      const Result<Decoded> d = decode(bytes_of(jpeg_with_profile(bad)));
      ASSERT_TRUE(d.ok()) << d.status().message();
      EXPECT_EQ(hex_of(d->image), hex_of(plain->image));
      EXPECT_EQ(d->warnings, 1);
    }
  }
  std::string lacks_a_chunk = jpeg_with_profile(icc);
  lacks_a_chunk[lacks_a_chunk.find("ICC_PROFILE") + 13] = 2;
  const Result<Decoded> d = decode(bytes_of(lacks_a_chunk));
  ASSERT_TRUE(d.ok()) << d.status().message();
  EXPECT_EQ(hex_of(d->image), hex_of(plain->image));
  EXPECT_EQ(d->warnings, 1);
}

// Damages a file as disks, links and enemies do.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : rng_(seed, "mutations") {}

  std::string operator()(std::string file, const std::string& other) {
    for (size_t n = 1 + below(6); n > 0 && !file.empty(); --n) change(file, other);
    return file;
  }
  size_t below(size_t n) { return static_cast<size_t>(rng_.next_below(n)); }

 private:
  void change(std::string& file, const std::string& other) {
    static constexpr std::string_view kEdges[] = {{"\0\0\0\0", 4},    "\xff\xff\xff\xff",
                                                  "\x7f\xff\xff\xff", {"\0\0\0\1", 4},
                                                  {"\x80\0\0\0", 4},  {"\1\0\0\0", 4}};
    const size_t at = below(file.size());
    switch (below(8)) {
      case 0:
      case 1:
        file[at] = static_cast<char>(file[at] ^ 1 << below(8));
        break;
      case 2:
        file[at] = static_cast<char>(below(256));
        break;
      case 3: {
        const std::string_view edge = kEdges[below(std::size(kEdges))];
        const size_t n = size_t{1} << below(3);
        file.replace(at, std::min(n, file.size() - at), edge.substr(0, n));
        break;
      }
      case 4:
        file.resize(at);
        break;
      case 5:
        file.erase(at, 1 + below(16));
        break;
      case 6:
        file.insert(at, file.substr(below(file.size()), 1 + below(32)));
        break;
      default:
        file.replace(at, 1 + below(16), other.substr(below(other.size()), 1 + below(16)));
    }
  }

  Rng rng_;
};

// NDTRAIN_MUTATIONS=1000000 makes it a longer one, NDTRAIN_MUTATION_SEED another.
TEST(Formats, MutatedFilesAreRefusedOrDecodedButNeverCrash) {
  const char* told = std::getenv("NDTRAIN_MUTATIONS");
  const char* seed = std::getenv("NDTRAIN_MUTATION_SEED");
  const int64_t mutations = told == nullptr ? 6000 : std::atoll(told);
  std::vector<std::string> files = {jpeg_of(test_pattern(40, 24)),
                                    testing::png_of(test_pattern(20, 12))};
  for (const GoldenFile& g : testing::golden_files()) {
    if (is_read(g)) files.push_back(from_hex(g.hex));
  }
  Mutator mutate(seed == nullptr ? 1 : static_cast<uint64_t>(std::atoll(seed)));
  int64_t decoded = 0, refused = 0, large = 0;
  for (int64_t i = 0; i < mutations; ++i) {
    const std::string& file = files[static_cast<size_t>(i) % files.size()];
    const std::string bad = mutate(file, files[mutate.below(files.size())]);
    const Result<PhotoHeader> header = read_photo_header(bytes_of(bad));
    // A mutated size may declare a photo of gigapixels, which is legal until its data ends.
    if (header.ok() && int64_t{header->width} * header->height > 1 << 20) {
      ++large;
      continue;
    }
    const Result<Decoded> d = decode(bytes_of(bad));
    if (d.ok()) {
      ASSERT_EQ(d->image.rgb.size(), size_t{3} * d->image.width * d->image.height);
    }
    ++(d.ok() ? decoded : refused);
  }
  std::printf("%ld mutated files: %ld decoded, %ld refused, %ld not tried for their size\n",
              mutations, decoded, refused, large);
  EXPECT_GT(decoded, mutations / 100);
  EXPECT_GT(refused, mutations / 10);
}

}  // namespace
}  // namespace ndtrain::ndp
