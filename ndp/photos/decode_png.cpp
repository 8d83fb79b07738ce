// As in decode_jpeg.cpp: phases with a setjmp of their own, memory with the callers.
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ndp/photos/codec.h"
#include "ndp/photos/exif.h"

namespace ndtrain::ndp::codec {
namespace {

// Bytes; twice what libpng takes of other chunks. A row of its most pixels is half of that.
constexpr size_t kMostAtOnce = size_t{16} << 20;

class PngReader {
 public:
  explicit PngReader(std::span<const std::byte> file) : rest_(file) {}
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  // Up to the pixels; asks for eight-bit RGB. As PIL: the high byte of sixteen, alpha dropped, a
  // transparent colour ignored, no gamma.
  bool read_header() {
    if (setjmp(exit_)) return false;
    png_ = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, this, on_error, on_warning, this,
                                    on_malloc, on_free);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) return false;
    png_set_read_fn(png_, this, on_read);
    png_read_info(png_, info_);
    png_set_strip_16(png_);
    png_set_palette_to_rgb(png_);
    png_set_expand_gray_1_2_4_to_8(png_);
    png_set_gray_to_rgb(png_);
    png_set_strip_alpha(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }

  bool read_rows(png_bytepp rows) {
    if (setjmp(exit_)) return false;
    png_read_image(png_, rows);
    png_read_end(png_, info_);
    return true;
  }

  size_t row_bytes() const { return png_get_rowbytes(png_, info_); }
  int harmless() const { return harmless_; }
  Status status() const { return {Code::kCorrupt, std::string("PNG: ") + message_}; }

  // eXIf may stand before or after the pixels: ask when all is read.
  int orientation() const {
    png_uint_32 n = 0;
    png_bytep exif = nullptr;
    if (png_get_eXIf_1(png_, info_, &n, &exif) == 0) return 1;
    return exif_orientation({exif, n});
  }

  std::span<const uint8_t> profile() const {
    png_charp name = nullptr;
    int compression = 0;
    png_bytep profile = nullptr;
    png_uint_32 n = 0;
    if (png_get_iCCP(png_, info_, &name, &compression, &profile, &n) == 0) return {};
    return {profile, n};
  }

 private:
  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    auto& self = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::snprintf(self.message_, sizeof self.message_, "%s", message);
    std::longjmp(self.exit_, 1);
  }
  static void on_warning(png_structp png, png_const_charp) {
    ++static_cast<PngReader*>(png_get_error_ptr(png))->harmless_;
  }
  // A chunk of a small file may say that it has 2 GB, and libpng makes room for what Exif it says.
  // Null: the chunk is left out, with a warning.
  static png_voidp on_malloc(png_structp, png_alloc_size_t n) {
    return n > kMostAtOnce ? nullptr : std::malloc(n);
  }
  static void on_free(png_structp, png_voidp p) { std::free(p); }
  static void on_read(png_structp png, png_bytep to, size_t n) {
    auto& self = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (n > self.rest_.size()) png_error(png, "the file ends too early");
    std::memcpy(to, self.rest_.data(), n);
    self.rest_ = self.rest_.subspan(n);
  }

  std::span<const std::byte> rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf exit_;
  int harmless_ = 0;
  char message_[200] = "out of memory";
};

uint32_t big_endian(const std::byte* p) {
  return std::to_integer<uint32_t>(p[0]) << 24 | std::to_integer<uint32_t>(p[1]) << 16 |
         std::to_integer<uint32_t>(p[2]) << 8 | std::to_integer<uint32_t>(p[3]);
}

}  // namespace

// IHDR stands first and at a fixed place, so libpng need not see a file whose size we refuse.
Result<PhotoHeader> read_png_header(std::span<const std::byte> file) {
  if (file.size() < 24 || std::memcmp(file.data() + 12, "IHDR", 4) != 0) {
    return Status(Code::kCorrupt, "PNG: no header");
  }
  const int64_t width = big_endian(file.data() + 16), height = big_endian(file.data() + 20);
  if (Status s = check_size(PhotoFormat::kPng, width, height); !s.ok()) return s;
  return PhotoHeader{.format = PhotoFormat::kPng,
                     .width = static_cast<int>(width),
                     .height = static_cast<int>(height)};
}

Result<Decoded> decode_png(std::span<const std::byte> file, const DecodeOptions&) {
  const Result<PhotoHeader> header = read_png_header(file);
  if (!header.ok()) return header.status();
  PngReader reader(file);
  if (!reader.read_header()) return reader.status();

  Decoded d;
  d.format = PhotoFormat::kPng;
  d.image = Image(header->width, header->height);
  if (reader.row_bytes() != d.image.stride()) {
    throw Error("PNG: libpng makes rows of ", reader.row_bytes(), " bytes, not ", d.image.stride());
  }
  std::vector<uint8_t*> rows(d.image.height);
  for (int y = 0; y < d.image.height; ++y) rows[y] = d.image.row(y);
  if (!reader.read_rows(rows.data())) return reader.status();
  d.orientation = reader.orientation();
  d.warnings = reader.harmless();
  to_srgb(reader.profile(), d);
  return d;
}

std::string png_library() { return std::string("libpng ") + png_get_libpng_ver(nullptr); }

}  // namespace ndtrain::ndp::codec
