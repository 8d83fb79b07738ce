#include "ndp/photos/encode.h"

#include <jpeglib.h>

#include <cstdio>  // jpeglib.h needs it first
#include <cstdlib>

#include "framework/core/error.h"

namespace ndtrain::ndp {

// libjpeg's default error exit is never reached: memory is its only failure here, and the
// destination grows by malloc.
std::string encode_jpeg(const Image& image, int quality) {
  if (image.width < 1 || image.height < 1) {
    throw Error("cannot encode an image of ", image.width, " x ", image.height);
  }
  jpeg_compress_struct c{};
  jpeg_error_mgr errors{};
  c.err = jpeg_std_error(&errors);
  jpeg_create_compress(&c);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type
  jpeg_mem_dest(&c, &bytes, &size);
  c.image_width = static_cast<JDIMENSION>(image.width);
  c.image_height = static_cast<JDIMENSION>(image.height);
  c.input_components = 3;
  c.in_color_space = JCS_RGB;
  jpeg_set_defaults(&c);
  jpeg_set_quality(&c, quality, TRUE);
  jpeg_start_compress(&c, TRUE);
  while (c.next_scanline < c.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(image.row(static_cast<int>(c.next_scanline)));
    jpeg_write_scanlines(&c, &row, 1);
  }
  jpeg_finish_compress(&c);
  std::string out(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&c);
  std::free(bytes);
  return out;
}

}  // namespace ndtrain::ndp
