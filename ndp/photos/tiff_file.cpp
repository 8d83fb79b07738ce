#include "ndp/photos/tiff_file.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "ndp/photos/codec.h"

namespace ndtrain::ndp::codec {
namespace {

// Of one block of memory that a file makes libtiff ask for: 16-bit CMYK of the largest photo's row
// and tables of tiles stay far below it.
constexpr tmsize_t kLargestBlock = tmsize_t{512} << 20;

TiffFile& file_of(void* self) { return *static_cast<TiffFile*>(self); }

Status unsupported_tiff(const std::string& what) { return {Code::kUnsupported, "TIFF: " + what}; }

// Of old-style JPEG, logarithms and the like there are no photos, but many bugs.
bool is_known(int compression) {
  constexpr int kKnown[] = {COMPRESSION_NONE,          COMPRESSION_CCITTRLE, COMPRESSION_CCITTFAX3,
                            COMPRESSION_CCITTFAX4,     COMPRESSION_LZW,      COMPRESSION_JPEG,
                            COMPRESSION_ADOBE_DEFLATE, COMPRESSION_DEFLATE,  COMPRESSION_PACKBITS,
                            COMPRESSION_LZMA,          COMPRESSION_ZSTD};
  return std::ranges::find(kKnown, compression) != std::end(kKnown) &&
         TIFFIsCODECConfigured(static_cast<uint16_t>(compression)) != 0;
}

Status check_samples(const TiffLayout& l) {
  constexpr int kMostSamples = 8;
  const bool several = l.photometric == PHOTOMETRIC_RGB || l.photometric == PHOTOMETRIC_SEPARATED ||
                       l.photometric == PHOTOMETRIC_YCBCR;
  const bool one = l.photometric == PHOTOMETRIC_MINISWHITE ||
                   l.photometric == PHOTOMETRIC_MINISBLACK || l.photometric == PHOTOMETRIC_PALETTE;
  if (!several && !one) return unsupported_tiff("colours of kind " + std::to_string(l.photometric));
  const bool whole = l.bits == 8 || (l.bits == 16 && l.photometric != PHOTOMETRIC_PALETTE);
  const bool part = (l.bits == 1 || l.bits == 2 || l.bits == 4) && one && l.samples == 1;
  if (!whole && !part) {
    return unsupported_tiff(std::to_string(l.samples) + " samples of " + std::to_string(l.bits) +
                            " bits");
  }
  if (l.samples < l.channels() || l.samples > kMostSamples) {
    return unsupported_tiff(std::to_string(l.samples) + " samples a pixel");
  }
  return {};
}

void read_palette(const TiffFile& file, TiffLayout& l) {
  l.palette.assign(size_t{3} * 256, 0);
  uint16_t* maps[3] = {};
  if (TIFFGetField(file.get(), TIFFTAG_COLORMAP, &maps[0], &maps[1], &maps[2]) == 0) return;
  for (size_t i = 0; i < size_t{1} << l.bits; ++i) {
    for (size_t c = 0; c < 3; ++c) l.palette[3 * i + c] = static_cast<uint8_t>(maps[c][i] >> 8);
  }
}

bool has_associated_alpha(const TiffFile& file) {
  uint16_t n = 0;
  const uint16_t* kinds = nullptr;
  TIFFGetFieldDefaulted(file.get(), TIFFTAG_EXTRASAMPLES, &n, &kinds);
  return n > 0 && kinds != nullptr && kinds[0] == EXTRASAMPLE_ASSOCALPHA;
}

}  // namespace

TiffFile::TiffFile(std::span<const std::byte> bytes) : bytes_(bytes) {
  TIFFOpenOptions* options = TIFFOpenOptionsAlloc();
  if (options == nullptr) return;
  TIFFOpenOptionsSetMaxSingleMemAlloc(options, kLargestBlock);
  TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, this);
  TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, this);
  tiff_ = TIFFClientOpenExt("photo", "r", this, on_read, on_write, on_seek, on_close, on_size,
                            on_map, on_unmap, options);
  TIFFOpenOptionsFree(options);
}

TiffFile::~TiffFile() {
  if (tiff_ != nullptr) TIFFClose(tiff_);
}

std::span<const uint8_t> TiffFile::profile() const {
  uint32_t n = 0;
  const uint8_t* icc = nullptr;
  if (TIFFGetField(tiff_, TIFFTAG_ICCPROFILE, &n, &icc) == 0) return {};
  return {icc, n};
}

uint64_t TiffFile::number(uint64_t at, uint64_t bytes) const {
  const bool big_endian = TIFFIsBigEndian(tiff_) != 0;
  uint64_t v = 0;
  for (uint64_t i = 0; i < bytes; ++i) {
    v = v << 8 | std::to_integer<uint64_t>(bytes_[at + (big_endian ? i : bytes - 1 - i)]);
  }
  return v;
}

// A directory is a count, entries (tag, type, count, and the values or where they are), and where
// the next one is. libtiff does without that, and without what lies behind the file's end.
bool TiffFile::has_whole_directory() const {
  static constexpr uint64_t kTypeBytes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4,
                                            8, 4, 8, 4, 0, 0, 8, 8, 8};
  const bool big = TIFFIsBigTIFF(tiff_) != 0;
  const uint64_t word = big ? 8 : 4, head = big ? 8 : 2, entry = 4 + 2 * word;
  const uint64_t at = TIFFCurrentDirOffset(tiff_), size = bytes_.size();
  if (at > size || size - at < head + word) return false;
  const uint64_t count = number(at, head);
  if ((size - at - head - word) / entry < count) return false;
  for (uint64_t e = at + head; e < at + head + count * entry; e += entry) {
    const uint64_t type = number(e + 2, 2), values = number(e + 4, word);
    const uint64_t each = type < std::size(kTypeBytes) ? kTypeBytes[type] : 0;
    if (each == 0 || values <= word / each) continue;
    const uint64_t from = number(e + 4 + word, word);
    if (from > size || (size - from) / each < values) return false;
  }
  return true;
}

bool TiffFile::is_whole() const {
  if (!has_whole_directory()) return false;
  const uint32_t n = TIFFIsTiled(tiff_) != 0 ? TIFFNumberOfTiles(tiff_) : TIFFNumberOfStrips(tiff_);
  for (uint32_t i = 0; i < n && !damaged_; ++i) {
    const uint64_t at = TIFFGetStrileOffset(tiff_, i), bytes = TIFFGetStrileByteCount(tiff_, i);
    if (at > bytes_.size() || bytes > bytes_.size() - at) return false;
  }
  return !damaged_;
}

Status TiffFile::status() const {
  return {Code::kCorrupt, std::string("TIFF: ") + (*message_ != '\0' ? message_ : "damaged")};
}

tmsize_t TiffFile::on_read(thandle_t self, void* to, tmsize_t n) {
  TiffFile& f = file_of(self);
  const uint64_t left = f.bytes_.size() - std::min<uint64_t>(f.at_, f.bytes_.size());
  const uint64_t take = std::min(left, static_cast<uint64_t>(std::max<tmsize_t>(n, 0)));
  if (take > 0) std::memcpy(to, f.bytes_.data() + f.at_, take);
  f.at_ += take;
  return static_cast<tmsize_t>(take);
}

tmsize_t TiffFile::on_write(thandle_t, void*, tmsize_t) { return 0; }

toff_t TiffFile::on_seek(thandle_t self, toff_t to, int whence) {
  TiffFile& f = file_of(self);
  f.at_ = to + (whence == SEEK_CUR ? f.at_ : whence == SEEK_END ? f.bytes_.size() : 0);
  return f.at_;
}

int TiffFile::on_close(thandle_t) { return 0; }

toff_t TiffFile::on_size(thandle_t self) { return file_of(self).bytes_.size(); }

int TiffFile::on_map(thandle_t self, void** base, toff_t* size) {
  *base = const_cast<std::byte*>(file_of(self).bytes_.data());
  *size = file_of(self).bytes_.size();
  return 1;
}

void TiffFile::on_unmap(thandle_t, void*, toff_t) {}

void TiffFile::fail(const char* format, va_list args) {
  damaged_ = true;
  if (*message_ == '\0') std::vsnprintf(message_, sizeof message_, format, args);
}

int TiffFile::on_error(TIFF*, void* self, const char*, const char* format, va_list args) {
  file_of(self).fail(format, args);
  return 1;
}

// What the JPEG and fax decoders warn of is missing or damaged data.
int TiffFile::on_warning(TIFF*, void* self, const char* module, const char* format, va_list args) {
  const std::string_view from = module == nullptr ? "" : module;
  if (from.starts_with("JPEGLib") || from.starts_with("Fax")) {
    file_of(self).fail(format, args);
  } else {
    ++file_of(self).warnings_;
  }
  return 1;
}

Result<TiffLayout> read_layout(TiffFile& file) {
  if (file.get() == nullptr) return file.status();
  TiffLayout l;
  const auto width = file.field<uint32_t>(TIFFTAG_IMAGEWIDTH);
  const auto height = file.field<uint32_t>(TIFFTAG_IMAGELENGTH);
  if (Status s = check_size(PhotoFormat::kTiff, width, height); !s.ok()) return s;
  l.width = static_cast<int>(width);
  l.height = static_cast<int>(height);
  uint16_t photometric = PHOTOMETRIC_MINISBLACK;
  if (TIFFGetField(file.get(), TIFFTAG_PHOTOMETRIC, &photometric) == 0) {
    photometric = PHOTOMETRIC_MINISWHITE;
  }
  l.photometric = photometric;
  l.bits = file.field<uint16_t>(TIFFTAG_BITSPERSAMPLE);
  l.samples = file.field<uint16_t>(TIFFTAG_SAMPLESPERPIXEL);
  const int orientation = file.field<uint16_t>(TIFFTAG_ORIENTATION);
  if (orientation >= 1 && orientation <= 8) l.orientation = orientation;
  l.separate = file.field<uint16_t>(TIFFTAG_PLANARCONFIG) == PLANARCONFIG_SEPARATE && l.samples > 1;
  l.associated = !l.separate && l.samples > 3 && l.photometric == PHOTOMETRIC_RGB &&
                 has_associated_alpha(file);
  const int compression = file.field<uint16_t>(TIFFTAG_COMPRESSION);
  if (!is_known(compression)) return unsupported_tiff("compression " + std::to_string(compression));
  if (const int format = file.field<uint16_t>(TIFFTAG_SAMPLEFORMAT);
      format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID) {
    return unsupported_tiff("samples that are no unsigned integers");
  }
  if (l.photometric == PHOTOMETRIC_YCBCR && compression == COMPRESSION_JPEG && !l.separate) {
    TIFFSetField(file.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    l.photometric = PHOTOMETRIC_RGB;
  }
  if (Status s = check_samples(l); !s.ok()) return s;
  if (l.photometric == PHOTOMETRIC_PALETTE) read_palette(file, l);
  return l;
}

}  // namespace ndtrain::ndp::codec
