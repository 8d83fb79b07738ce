#include "ndp/photos/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/hash.h"
#include "framework/core/limits.h"
#include "tests/photos/photo_factory.h"
#include "tests/support/paths.h"

namespace ndtrain::ndp {
namespace {

using testing::bytes_of;
using ::testing::HasSubstr;
using testing::jpeg_of;
using testing::JpegSpec;
using testing::png_of;
using testing::test_pattern;

struct GoldenPhoto {
  const char* name;
  const char* hex;
  int width, height;
  const char* sha256;
};

constexpr GoldenPhoto kGoldenPhotos[] = {
#include "tests/photos/golden_photos.inc"
};

std::string digest_of(const Image& image) {
  return to_hex(sha256({reinterpret_cast<const char*>(image.rgb.data()), image.rgb.size()}));
}

Code code_of(std::string_view file) { return decode(bytes_of(file)).status().code(); }

// JPEG keeps flat colours to a level or two.
void expect_near(const Image& got, const Image& want, int tolerance) {
  ASSERT_EQ(got.width, want.width);
  ASSERT_EQ(got.height, want.height);
  for (size_t i = 0; i < want.rgb.size(); ++i) {
    ASSERT_NEAR(got.rgb[i], want.rgb[i], tolerance) << "byte " << i;
  }
}

TEST(Decode, EveryKindOfFileGivesThePixelsPilGives) {
  for (const GoldenPhoto& g : kGoldenPhotos) {
    SCOPED_TRACE(g.name);
    const std::string file = testing::from_hex(g.hex);
    const Result<Decoded> d = decode(bytes_of(file));
    ASSERT_TRUE(d.ok()) << d.status().message();
    EXPECT_EQ(d->image.width, g.width);
    EXPECT_EQ(d->image.height, g.height);
    EXPECT_EQ(digest_of(d->image), g.sha256);
    EXPECT_EQ(d->warnings, 0);
  }
}

TEST(Decode, SixteenBitGreyKeepsItsHighByte) {
  const std::string file =
      testing::png_header(2, 1, 16, 0) +
      testing::png_chunk("IDAT", testing::from_hex("78da63f827f4d7040006610242")) +
      testing::png_chunk("IEND", {});
  const Result<Decoded> d = decode(bytes_of(file));
  ASSERT_TRUE(d.ok()) << d.status().message();
  EXPECT_EQ(d->image.rgb, (std::vector<uint8_t>{0xfe, 0xfe, 0xfe, 0xfd, 0xfd, 0xfd}));
}

TEST(Decode, AdobeYcckBecomesRgb) {
  const Image colour = testing::flat(16, 16, 200, 40, 90);
  for (auto colours : {JpegSpec::Colours::kCmyk, JpegSpec::Colours::kYcck}) {
    const Result<Decoded> d =
        decode(bytes_of(jpeg_of(colour, {.colours = colours, .quality = 100})));
    ASSERT_TRUE(d.ok()) << d.status().message();
    expect_near(d->image, colour, 3);
  }
}

TEST(Decode, ProgressiveAndRestartMarkersAreRead) {
  const Image image = test_pattern(90, 60);
  const Result<Decoded> plain = decode(bytes_of(jpeg_of(image)));
  const Result<Decoded> progressive = decode(bytes_of(jpeg_of(image, {.progressive = true})));
  const Result<Decoded> restarts = decode(bytes_of(jpeg_of(image, {.restart_rows = 1})));
  ASSERT_TRUE(plain.ok() && progressive.ok() && restarts.ok());
  EXPECT_EQ(plain->image.rgb, progressive->image.rgb);
  EXPECT_EQ(plain->image.rgb, restarts->image.rgb);
}

TEST(Decode, EveryPrefixOfAJpegIsRefused) {
  for (bool progressive : {false, true}) {
    const std::string file = jpeg_of(test_pattern(40, 24), {.progressive = progressive});
    ASSERT_TRUE(decode(bytes_of(file)).ok());
    for (size_t n = 0; n < file.size(); ++n) {
      ASSERT_EQ(code_of(file.substr(0, n)), Code::kCorrupt)
          << n << " of " << file.size() << " bytes, progressive " << progressive;
    }
  }
}

TEST(Decode, EveryPrefixOfAPngIsRefused) {
  const std::string file = png_of(test_pattern(20, 12));
  ASSERT_TRUE(decode(bytes_of(file)).ok());
  for (size_t n = 0; n < file.size(); ++n) {
    ASSERT_EQ(code_of(file.substr(0, n)), Code::kCorrupt) << n << " of " << file.size() << " bytes";
  }
}

TEST(Decode, FlippedBytesAreRefusedOrDecodedButNeverCrash) {
  const std::string files[] = {jpeg_of(test_pattern(40, 24)),
                               jpeg_of(test_pattern(40, 24), {.progressive = true}),
                               png_of(test_pattern(20, 12))};
  for (const std::string& file : files) {
    for (size_t i = 0; i < file.size(); ++i) {
      for (int flip : {0x01, 0x80, 0xff}) {
        std::string bad = file;
        bad[i] = static_cast<char>(bad[i] ^ flip);
        // A flipped size may declare a photo of gigapixels, which is legal until its data ends.
        const Result<PhotoHeader> header = read_photo_header(bytes_of(bad));
        if (!header.ok() || int64_t{header->width} * header->height > 1 << 20) continue;
        const Result<Decoded> d = decode(bytes_of(bad));
        if (d.ok()) {
          ASSERT_EQ(d->image.rgb.size(), size_t{3} * d->image.width * d->image.height);
        }
      }
    }
  }
}

TEST(Decode, AJpegWithDamagedDataIsCorrupt) {
  const std::string file = jpeg_of(test_pattern(200, 150), {.restart_rows = 1});
  std::string bad = file;
  bad.replace(file.size() / 2, 40, std::string(40, '\xff'));
  EXPECT_EQ(code_of(bad), Code::kCorrupt);
}

TEST(Decode, APngWithAWrongChecksumIsCorrupt) {
  std::string file = png_of(test_pattern(30, 20));
  file[file.find("IDAT") + 30] ^= 0x10;
  EXPECT_EQ(code_of(file), Code::kCorrupt);
}

TEST(Decode, ExtraneousBytesAreOnlyCounted) {
  const Image image = test_pattern(40, 24);
  std::string file = jpeg_of(image);
  const size_t frame = file.find("\xff\xc0");
  const Result<Decoded> clean = decode(bytes_of(file));
  file.insert(frame, "\xff\x00garbage", 9);
  const Result<Decoded> d = decode(bytes_of(file));
  ASSERT_TRUE(clean.ok());
  ASSERT_TRUE(d.ok()) << d.status().message();
  EXPECT_EQ(d->warnings, 1);
  EXPECT_EQ(clean->warnings, 0);
  EXPECT_EQ(d->image.rgb, clean->image.rgb);
  EXPECT_TRUE(decode(bytes_of(jpeg_of(image) + "trailing bytes")).ok());
}

TEST(Decode, DeclaredSizesAreCheckedBeforeAnythingIsAllocated) {
  const std::string jpeg = jpeg_of(test_pattern(16, 16));
  for (auto [w, h, code] : {std::tuple{60000, 60000, Code::kTooLarge},
                            {static_cast<int>(limits::kPhotoSide) + 1, 1, Code::kTooLarge},
                            {1, static_cast<int>(limits::kPhotoSide) + 1, Code::kTooLarge},
                            {static_cast<int>(limits::kPhotoSide), 1, Code::kOk},
                            {static_cast<int>(limits::kPhotoSide) - 1, 1, Code::kOk},
                            {16383, 16385, Code::kOk},  // one pixel less than the limit
                            {16384, 16384, Code::kOk},
                            {16385, 16384, Code::kTooLarge}}) {
    SCOPED_TRACE(std::to_string(w) + " x " + std::to_string(h));
    const std::string declared = testing::jpeg_declaring(jpeg, w, h);
    EXPECT_EQ(read_photo_header(bytes_of(declared)).status().code(), code);
    EXPECT_EQ(read_photo_header(bytes_of(testing::png_header(w, h))).status().code(), code);
    if (code == Code::kTooLarge) {
      EXPECT_EQ(code_of(declared), code);
      EXPECT_EQ(code_of(testing::png_header(w, h)), code);
    }
  }
  EXPECT_EQ(code_of(testing::png_header(0, 10)), Code::kCorrupt);
  EXPECT_EQ(code_of(testing::png_header(0xffffffff, 10)), Code::kTooLarge);
}

// The most address space that the process has had.
int64_t peak_kib() {
  std::ifstream status("/proc/self/status");
  int64_t kib = 0;
  for (std::string word; status >> word;) {
    if (word == "VmPeak:") status >> kib;
  }
  return kib;
}

TEST(Decode, AChunkOfAPngTakesNoMoreMemoryThanItsFileCanFill) {
  std::string file = png_of(test_pattern(17, 11));
  constexpr size_t kBehindHeader = 8 + 25;
  constexpr char kGigabyte[] = {0x40, 0, 0, 0x26, 'e', 'X', 'I', 'f', 'M', 'M', 0, '*'};
  file.insert(kBehindHeader, kGigabyte, sizeof kGigabyte);
  const int64_t before = peak_kib();
  EXPECT_EQ(code_of(file), Code::kCorrupt);
  EXPECT_LT(peak_kib() - before, 256 << 10);
}

TEST(Decode, TheLongestPermittedSideDecodes) {
  const int side = static_cast<int>(limits::kPhotoSide);
  const Result<Decoded> d = decode(bytes_of(png_of(testing::flat(side, 1, 1, 2, 3))));
  ASSERT_TRUE(d.ok()) << d.status().message();
  EXPECT_EQ(d->image.width, side);
}

TEST(Decode, EndlessScansAreRefused) {
  const std::string file = jpeg_of(test_pattern(16, 16), {.progressive = true});
  const size_t scan = file.find("\xff\xda"), next = file.find("\xff\xc4", scan);
  const std::string first = file.substr(scan, next - scan);
  std::string bad = file;
  for (int i = 0; i < 2000; ++i) bad.insert(scan, first);
  const Result<Decoded> d = decode(bytes_of(bad));
  ASSERT_FALSE(d.ok());
  EXPECT_THAT(d.status().message(), HasSubstr("scans"));
}

TEST(Decode, EveryFormatIsKnownByItsFirstBytes) {
  const std::pair<std::string, PhotoFormat> files[] = {
      {std::string("\0\0\0\x18"
                   "ftypheic\0\0\0\0",
                   16),
       PhotoFormat::kHeic},
      {std::string("\0\0\0\x18"
                   "ftypavif\0\0\0\0",
                   16),
       PhotoFormat::kAvif},
      {std::string("\0\0\0\x1c"
                   "ftypmif1\0\0\0\0mif1avif\0\0\0\0",
                   28),
       PhotoFormat::kAvif},
      {std::string("RIFF\x10\0\0\0WEBPVP8 ", 16), PhotoFormat::kWebp},
      {"GIF89a..........", PhotoFormat::kGif},
      {std::string("BM\x40\0\0\0\0\0\0\0\x36\0\0\0", 14), PhotoFormat::kBmp},
      {std::string("II*\0\x08\0\0\0", 8), PhotoFormat::kTiff},
      {std::string("MM\0*\0\0\0\x08", 8), PhotoFormat::kTiff}};
  for (const auto& [file, format] : files) {
    EXPECT_EQ(sniff(bytes_of(file)), format);
    const Status s = decode(bytes_of(file)).status();
    EXPECT_EQ(s.code(), can_decode(format) ? Code::kCorrupt : Code::kUnsupported);
    EXPECT_THAT(s.message(), HasSubstr(std::string(name_of(format))));
    EXPECT_EQ(read_photo_header(bytes_of(file)).status().code(), s.code());
  }
}

TEST(Decode, WhatIsNoPhotoIsCorrupt) {
  for (std::string_view file : {"", "x", "<html>hello</html>", "\xff\xd8", "BMW is a car"}) {
    EXPECT_EQ(sniff(bytes_of(file)), PhotoFormat::kUnknown);
    EXPECT_EQ(code_of(file), Code::kCorrupt);
  }
}

TEST(Decode, TheNameDoesNotDecideTheFormat) {
  EXPECT_EQ(format_of_extension(".jpg"), PhotoFormat::kJpeg);
  EXPECT_EQ(format_of_extension(".txt"), PhotoFormat::kUnknown);
  EXPECT_EQ(sniff(bytes_of(png_of(test_pattern(3, 3)))), PhotoFormat::kPng);
}

TEST(Decode, FastDecodeHalvesWhileTheShorterSideStaysLongEnough) {
  const std::string file = jpeg_of(test_pattern(640, 400));
  const auto size = [&](int shorter) {
    const Result<Decoded> d = decode(bytes_of(file), {.min_shorter_side = shorter});
    return d.ok() ? std::pair(d->image.width, d->image.height) : std::pair(0, 0);
  };
  EXPECT_EQ(size(0), std::pair(640, 400));
  EXPECT_EQ(size(400), std::pair(640, 400));
  EXPECT_EQ(size(201), std::pair(640, 400));
  EXPECT_EQ(size(200), std::pair(320, 200));
  EXPECT_EQ(size(100), std::pair(160, 100));
  EXPECT_EQ(size(51), std::pair(160, 100));
  EXPECT_EQ(size(1), std::pair(80, 50));
}

TEST(Decode, EveryPhotoOfTheImagenetSampleDecodes) {
  const std::string root = support::shared_path("/data/imagenet-sample");
  if (!real_fs().exists(root)) GTEST_SKIP() << root << " is not there";
  const Result<std::vector<std::string>> names = real_fs().list(root);
  ASSERT_TRUE(names.ok());
  int photos = 0;
  for (const std::string& name : *names) {
    if (extension_of(name) != ".jpeg") continue;
    if (++photos % 10 != 0) continue;
    const Result<std::string> file = real_fs().read(join(root, name));
    ASSERT_TRUE(file.ok());
    const Result<Decoded> d = decode(bytes_of(*file));
    EXPECT_TRUE(d.ok()) << name << ": " << d.status().message();
  }
  EXPECT_EQ(photos, 500);
}

}  // namespace
}  // namespace ndtrain::ndp
