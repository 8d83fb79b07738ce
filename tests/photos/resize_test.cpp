#include "ndp/photos/resize.h"

#include <gtest/gtest.h>

#include <string>

#include "framework/core/error.h"
#include "framework/core/hash.h"
#include "ndp/photos/resize_kernels.h"
#include "tests/photos/photo_factory.h"

namespace ndtrain::ndp {
namespace {

using testing::test_pattern;

struct GoldenResize {
  int width, height, new_width, new_height;
  Interpolation interpolation;
  const char* sha256;
};

constexpr GoldenResize kGoldenResizes[] = {
#include "tests/photos/golden_resizes.inc"
};

TEST(Resize, EqualsPilBitForBit) {
  for (const GoldenResize& g : kGoldenResizes) {
    const Image r =
        resize(test_pattern(g.width, g.height), g.new_width, g.new_height, g.interpolation);
    EXPECT_EQ(to_hex(sha256({reinterpret_cast<const char*>(r.rgb.data()), r.rgb.size()})), g.sha256)
        << g.width << "x" << g.height << " to " << g.new_width << "x" << g.new_height
        << (g.interpolation == Interpolation::kBicubic ? " bicubic" : " bilinear");
  }
}

TEST(Resize, ABoxIsThatPartOfTheWhole) {
  const Image from = test_pattern(97, 61);
  for (auto interpolation : {Interpolation::kBilinear, Interpolation::kBicubic}) {
    for (auto [w, h] : {std::pair{40, 30}, {97, 61}, {150, 33}, {20, 100}}) {
      const Image whole = resize(from, w, h, interpolation);
      for (const PixelBox& box : {PixelBox{3, 5, 11, 17}, PixelBox{w - 20, h - 30, 20, 30},
                                  PixelBox{0, h - 1, w, 1}, PixelBox{w - 1, 0, 1, h}}) {
        Image part(box.width, box.height);
        resize(from, w, h, interpolation, box, part.rgb.data(), part.stride());
        for (int y = 0; y < box.height; ++y) {
          for (int x = 0; x < 3 * box.width; ++x) {
            ASSERT_EQ(part.row(y)[x], whole.row(box.top + y)[3 * box.left + x]);
          }
        }
      }
    }
  }
}

TEST(Resize, FlatColoursStayAsTheyAre) {
  const Image from = testing::flat(50, 40, 255, 0, 129);
  for (auto interpolation : {Interpolation::kBilinear, Interpolation::kBicubic}) {
    for (auto [w, h] : {std::pair{7, 9}, {200, 3}, {49, 41}}) {
      EXPECT_EQ(resize(from, w, h, interpolation).rgb, testing::flat(w, h, 255, 0, 129).rgb);
    }
  }
}

TEST(Resize, ImpossibleRequestsAreErrors) {
  const Image from = test_pattern(4, 4);
  uint8_t out[48];
  EXPECT_THROW(resize(from, 0, 4, Interpolation::kBilinear), Error);
  EXPECT_THROW(resize(Image(), 4, 4, Interpolation::kBilinear), Error);
  EXPECT_THROW(resize(from, 2, 2, Interpolation::kBilinear, {1, 0, 2, 2}, out, 6), Error);
  EXPECT_THROW(resize(from, 2, 2, Interpolation::kBilinear, {-1, 0, 2, 2}, out, 6), Error);
  EXPECT_THROW(resize(from, 2, 2, Interpolation::kBilinear, {0, 0, 0, 2}, out, 6), Error);
}

// Weights of one part in 4096 and less, negative ones too, against plain arithmetic.
TEST(Resize, KernelsEqualPlainArithmeticForAnyWeights) {
  constexpr int kWeights[] = {1, -1, 4095, 4096, -4096, 1 << 21, -(1 << 20) + 77, 3000001};
  constexpr int kRows = 8, kBytes = 48 + 5;
  std::vector<std::vector<uint8_t>> rows(kRows, std::vector<uint8_t>(kBytes));
  std::vector<const uint8_t*> inputs;
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kBytes; ++i) rows[r][i] = static_cast<uint8_t>(r * 83 + i * 59 + i * r);
    inputs.push_back(rows[r].data());
  }
  resize_kernels::WeightPair pairs[kRows / 2];
  for (int r = 0; r < kRows; ++r) {
    pairs[r / 2].low |= static_cast<uint32_t>(kWeights[r] & 4095) << 16 * (r % 2);
    pairs[r / 2].high |= static_cast<uint32_t>((kWeights[r] >> 12) & 0xffff) << 16 * (r % 2);
  }
  const auto plain = [&](auto value) {
    int64_t sum = 1 << 21;
    for (int r = 0; r < kRows; ++r) sum += int64_t{kWeights[r]} * value(r);
    return static_cast<int>(std::clamp<int64_t>(sum >> 22, 0, 255));
  };
  std::vector<uint8_t> out(kBytes);
  resize_kernels::vertical_row(inputs.data(), pairs, kRows / 2, kBytes, out.data());
  for (int i = 0; i < kBytes; ++i) {
    EXPECT_EQ(out[i], plain([&](int r) { return rows[r][i]; })) << "byte " << i;
  }
  const resize_kernels::Taps taps[] = {{.first = 2, .count = kRows}};
  resize_kernels::horizontal_row(rows[0].data(), taps, pairs, kRows / 2, 1, out.data());
  for (int c = 0; c < 3; ++c) {
    EXPECT_EQ(out[c], plain([&](int t) { return rows[0][3 * (2 + t) + c]; })) << "channel " << c;
  }
}

}  // namespace
}  // namespace ndtrain::ndp
