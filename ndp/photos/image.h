#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ndtrain::ndp {

// Eight-bit RGB, rows from the top, pixels from the left, three bytes each, no padding.
struct Image {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> rgb;  // 3 * width * height

  Image() = default;
  Image(int w, int h) : width(w), height(h), rgb(size_t{3} * w * h) {}

  size_t stride() const { return size_t{3} * width; }
  const uint8_t* row(int y) const { return rgb.data() + stride() * y; }
  uint8_t* row(int y) { return rgb.data() + stride() * y; }
};

}  // namespace ndtrain::ndp
