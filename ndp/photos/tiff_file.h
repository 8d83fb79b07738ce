// A TIFF file in memory, as libtiff sees it, and what its first directory says.
#pragma once

#include <tiffio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/core/status.h"

namespace ndtrain::ndp::codec {

// Reads nothing but what it is given, and prints nothing.
class TiffFile {
 public:
  explicit TiffFile(std::span<const std::byte> bytes);
  ~TiffFile();
  TiffFile(const TiffFile&) = delete;
  TiffFile& operator=(const TiffFile&) = delete;

  TIFF* get() const { return tiff_; }  // nullptr when it could not be opened
  // A field of one value; its default where the file has none.
  template <typename T>
  T field(uint32_t tag) const {
    T value{};
    TIFFGetFieldDefaulted(tiff_, tag, &value);
    return value;
  }
  std::span<const uint8_t> profile() const;

  // Whether the directory and all strips or tiles lie in the file: libtiff may do without the last
  // bytes of one.
  bool is_whole() const;
  // Whether something was said to be wrong with the pixels, though a call has not failed.
  bool damaged() const { return damaged_; }
  int warnings() const { return warnings_; }
  Status status() const;  // of the first failure

 private:
  static tmsize_t on_read(thandle_t self, void* to, tmsize_t n);
  static tmsize_t on_write(thandle_t, void*, tmsize_t);
  static toff_t on_seek(thandle_t self, toff_t to, int whence);
  static int on_close(thandle_t);
  static toff_t on_size(thandle_t self);
  static int on_map(thandle_t self, void** base, toff_t* size);
  static void on_unmap(thandle_t, void* base, toff_t size);
  static int on_error(TIFF*, void* self, const char* module, const char* format, va_list args);
  static int on_warning(TIFF*, void* self, const char* module, const char* format, va_list args);
  void fail(const char* format, va_list args);
  bool has_whole_directory() const;
  uint64_t number(uint64_t at, uint64_t bytes) const;  // in the file's byte order

  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
  TIFF* tiff_ = nullptr;
  bool damaged_ = false;
  int warnings_ = 0;
  char message_[200] = "";
};

struct TiffLayout {
  int width = 0, height = 0;
  int bits = 0;     // of a sample
  int samples = 0;  // of a pixel
  int photometric = 0;
  int orientation = 1;
  bool separate = false;         // a plane for each sample, instead of pixels
  bool associated = false;       // colours have been multiplied with the alpha behind them
  std::vector<uint8_t> palette;  // 256 colours of three bytes

  int channels() const {  // samples that make the colour
    return photometric == PHOTOMETRIC_RGB ? 3 : photometric == PHOTOMETRIC_SEPARATED ? 4 : 1;
  }
  int planes() const { return separate ? channels() : 1; }
};

// Sets the file to hand out RGB where it holds a JPEG of luma and chroma. kUnsupported, kTooLarge
// or kCorrupt.
Result<TiffLayout> read_layout(TiffFile& file);

}  // namespace ndtrain::ndp::codec
