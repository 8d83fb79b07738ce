#include "ndp/photos/colour_changes.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "framework/core/hash.h"
#include "tests/photos/photo_factory.h"

namespace ndtrain::ndp {
namespace {

using testing::test_pattern;

struct GoldenChange {
  const char* what;
  double amount;
  const char *bright, *dim;  // SHA-256
};

constexpr GoldenChange kGoldenChanges[] = {
#include "tests/photos/golden_changes.inc"
};

std::string digest(const Image& image) {
  return to_hex(sha256({reinterpret_cast<const char*>(image.rgb.data()), image.rgb.size()}));
}

Image changed(std::string_view what, const Image& i, double x) {
  using Change = std::function<Image()>;
  const std::map<std::string_view, Change> changes = {
      {"brightness", [&] { return with_brightness(i, x); }},
      {"contrast", [&] { return with_contrast(i, x); }},
      {"saturation", [&] { return with_saturation(i, x); }},
      {"sharpness", [&] { return with_sharpness(i, x); }},
      {"hue", [&] { return with_hue(i, x); }},
      {"posterize", [&] { return posterized(i, static_cast<int>(x)); }},
      {"solarize", [&] { return solarized(i, x); }},
      {"autocontrast", [&] { return autocontrasted(i); }},
      {"equalize", [&] { return equalized(i); }},
      {"shear_x", [&] { return transformed(i, {.b = x}); }},
      {"shear_y", [&] { return transformed(i, {.d = x}); }},
      {"shift_x", [&] { return transformed(i, {.c = -x}); }},
      {"shift_y", [&] { return transformed(i, {.f = -x}); }},
      {"rotate", [&] { return rotated(i, x); }},
  };
  return changes.at(what)();
}

TEST(ColourChanges, EqualPilBitForBit) {
  const Image bright = test_pattern(61, 43);
  Image dim = bright;
  for (uint8_t& value : dim.rgb) value = static_cast<uint8_t>(40 + value / 3);
  for (const GoldenChange& g : kGoldenChanges) {
    EXPECT_EQ(digest(changed(g.what, bright, g.amount)), g.bright) << g.what << " " << g.amount;
    EXPECT_EQ(digest(changed(g.what, dim, g.amount)), g.dim) << g.what << " " << g.amount << " dim";
  }
}

TEST(ColourChanges, OfOnePixelOrOneColourAreAllThere) {
  for (const Image& i : {test_pattern(1, 1), testing::flat(5, 2, 9, 9, 9)}) {
    for (const GoldenChange& g : kGoldenChanges) {
      const Image out = changed(g.what, i, g.amount);
      EXPECT_EQ(out.width, i.width);
      EXPECT_EQ(out.rgb.size(), i.rgb.size());
    }
    EXPECT_EQ(digest(autocontrasted(i)), digest(i));
    EXPECT_EQ(digest(equalized(i)), digest(i));
  }
}

}  // namespace
}  // namespace ndtrain::ndp
