#pragma once

#include <cstdint>
#include <vector>

#include "ndp/photos/image.h"
#include "ndp/photos/tiff_file.h"

namespace ndtrain::ndp::codec {

// From rows of samples, as libtiff hands them out, to RGB as PIL makes it: of sixteen bits the high
// byte, alpha dropped. `image` has the layout's size and outlives it.
class TiffPixels {
 public:
  TiffPixels(const TiffLayout& layout, Image& image);

  size_t row_bytes(int columns) const;
  // `columns` pixels, or samples of one plane, that begin at (x, y), from row_bytes() bytes.
  void put(const uint8_t* row, int plane, int x, int y, int columns);
  void finish();  // when all are there

 private:
  void put_indexed(const uint8_t* row, int x, int y, int columns);
  void put_channels(const uint8_t* row, int plane, int x, int y, int columns);

  const TiffLayout& layout_;
  Image& image_;
  std::vector<uint8_t> colours_;  // of each value of the one channel
  std::vector<uint8_t> inks_;     // CMYK
};

}  // namespace ndtrain::ndp::codec
