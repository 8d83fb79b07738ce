// libjpeg reports errors by a callback that must not return. Each phase below is a function of its
// own with a setjmp and no object that has a destructor; memory belongs to the callers, so a
// longjmp never skips one.
#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "ndp/photos/codec.h"
#include "ndp/photos/exif.h"

// clang-format off: jpeglib.h needs <cstdio> before it, jerror.h needs jpeglib.h
#include <jerror.h>
#include <jpeglib.h>
// clang-format on

namespace ndtrain::ndp::codec {
namespace {

// A progressive file may repeat tiny scans over a huge image, each costing a pass; real encoders
// write about ten.
constexpr int kScans = 500;
constexpr int kRowsPerCall = 16;

bool is_harmless(int warning) {
  switch (warning) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL:
    case JWRN_BOGUS_ICC:
      return true;
    default:
      return false;
  }
}

Code code_of(int error) {
  switch (error) {
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_ARITH_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
      return Code::kUnsupported;
    case JERR_IMAGE_TOO_BIG:
    case JERR_OUT_OF_MEMORY:
    case JERR_WIDTH_OVERFLOW:
      return Code::kTooLarge;
    default:
      return Code::kCorrupt;
  }
}

struct Failure {
  jpeg_error_mgr callbacks;  // first: libjpeg hands back a pointer to it
  std::jmp_buf exit;
  int harmless = 0;
  Code code = Code::kCorrupt;
  char message[JMSG_LENGTH_MAX] = "";
};

Failure& failure_of(j_common_ptr cinfo) { return *reinterpret_cast<Failure*>(cinfo->err); }

[[noreturn]] void fail(j_common_ptr cinfo) {
  Failure& f = failure_of(cinfo);
  f.callbacks.format_message(cinfo, f.message);
  f.code = code_of(f.callbacks.msg_code);
  std::longjmp(f.exit, 1);
}

void on_message(j_common_ptr cinfo, int level) {
  if (level >= 0) return;
  Failure& f = failure_of(cinfo);
  if (!is_harmless(f.callbacks.msg_code)) fail(cinfo);
  ++f.harmless;
}

void on_progress(j_common_ptr cinfo) {
  if (reinterpret_cast<j_decompress_ptr>(cinfo)->input_scan_number <= kScans) return;
  Failure& f = failure_of(cinfo);
  std::snprintf(f.message, sizeof f.message, "more than %d scans", kScans);
  std::longjmp(f.exit, 1);
}

class JpegReader {
 public:
  JpegReader() {
    cinfo_.err = jpeg_std_error(&failure_.callbacks);
    failure_.callbacks.error_exit = fail;
    failure_.callbacks.emit_message = on_message;
    progress_.progress_monitor = on_progress;
  }
  ~JpegReader() { jpeg_destroy_decompress(&cinfo_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  bool read_header(std::span<const std::byte> file) {
    if (setjmp(failure_.exit)) return false;
    jpeg_create_decompress(&cinfo_);
    cinfo_.progress = &progress_;
    jpeg_mem_src(&cinfo_, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_save_markers(&cinfo_, JPEG_APP0 + 1, 0xffff);
    jpeg_save_markers(&cinfo_, JPEG_APP0 + 2, 0xffff);
    jpeg_read_header(&cinfo_, TRUE);
    return true;
  }

  // Fixes the output's size and colours.
  bool configure(unsigned eighths, J_COLOR_SPACE colours) {
    if (setjmp(failure_.exit)) return false;
    cinfo_.scale_num = eighths;
    cinfo_.scale_denom = 8;
    cinfo_.out_color_space = colours;
    jpeg_calc_output_dimensions(&cinfo_);
    return true;
  }

  // `to` holds output_height rows of `stride` bytes.
  bool read_rows(uint8_t* to, size_t stride) {
    if (setjmp(failure_.exit)) return false;
    jpeg_start_decompress(&cinfo_);
    while (cinfo_.output_scanline < cinfo_.output_height) {
      JSAMPROW rows[kRowsPerCall];
      const JDIMENSION n =
          std::min<JDIMENSION>(kRowsPerCall, cinfo_.output_height - cinfo_.output_scanline);
      for (JDIMENSION i = 0; i < n; ++i) rows[i] = to + stride * (cinfo_.output_scanline + i);
      jpeg_read_scanlines(&cinfo_, rows, n);
    }
    jpeg_finish_decompress(&cinfo_);
    return true;
  }

  Status status() const { return {failure_.code, std::string("JPEG: ") + failure_.message}; }
  int harmless() const { return failure_.harmless; }
  const jpeg_decompress_struct& info() const { return cinfo_; }

  int orientation() const {
    for (auto* m = cinfo_.marker_list; m != nullptr; m = m->next) {
      if (m->marker != JPEG_APP0 + 1) continue;
      if (m->data_length >= 6 && std::memcmp(m->data, "Exif\0\0", 6) == 0) {
        return exif_orientation({m->data + 6, m->data_length - 6});
      }
    }
    return 1;
  }

 private:
  Failure failure_;
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct cinfo_{};
};

Status read_checked_header(JpegReader& reader, std::span<const std::byte> file) {
  if (!reader.read_header(file)) return reader.status();
  return check_size(PhotoFormat::kJpeg, reader.info().image_width, reader.info().image_height);
}

// Only 1/8, 2/8 and 4/8: libjpeg-turbo has no fast transform for the others.
unsigned eighths_for(int64_t shorter_side, int min_shorter_side) {
  if (min_shorter_side <= 0) return 8;
  for (unsigned eighths : {1u, 2u, 4u}) {
    if ((shorter_side * eighths + 7) / 8 >= min_shorter_side) return eighths;
  }
  return 8;
}

uint8_t times_over_255(int a, int b) {
  const int t = a * b + 128;
  return static_cast<uint8_t>(((t >> 8) + t) >> 8);
}

// A profile is cut into chunks, each with its number from 1 and how many there are (ICC.1, annex
// B.4). "" when there is none, or a chunk is missing; `broken` tells these apart.
std::vector<uint8_t> assemble_profile(const jpeg_decompress_struct& info, bool& broken) {
  constexpr size_t kHead = 14;
  std::array<jpeg_saved_marker_ptr, 256> chunks{};
  size_t count = 0;
  for (auto* m = info.marker_list; m != nullptr; m = m->next) {
    if (m->marker != JPEG_APP0 + 2 || m->data_length < kHead) continue;
    if (std::memcmp(m->data, "ICC_PROFILE", 12) != 0) continue;
    const size_t number = m->data[12], of = m->data[13];
    broken |= (count != 0 && count != of) || number == 0 || number > of || chunks[number];
    count = of;
    chunks[number] = m;
  }
  std::vector<uint8_t> profile;
  for (size_t i = 1; i <= count && !broken; ++i) {
    broken = chunks[i] == nullptr;
    if (!broken)
      profile.insert(profile.end(), chunks[i]->data + kHead,
                     chunks[i]->data + chunks[i]->data_length);
  }
  return broken ? std::vector<uint8_t>() : profile;
}

}  // namespace

Result<PhotoHeader> read_jpeg_header(std::span<const std::byte> file) {
  JpegReader reader;
  if (Status s = read_checked_header(reader, file); !s.ok()) return s;
  return PhotoHeader{.format = PhotoFormat::kJpeg,
                     .width = static_cast<int>(reader.info().image_width),
                     .height = static_cast<int>(reader.info().image_height)};
}

Result<Decoded> decode_jpeg(std::span<const std::byte> file, const DecodeOptions& options) {
  JpegReader reader;
  if (Status s = read_checked_header(reader, file); !s.ok()) return s;
  const jpeg_decompress_struct& info = reader.info();
  const J_COLOR_SPACE stored = info.jpeg_color_space;
  if (stored == JCS_UNKNOWN) {
    return Status(Code::kUnsupported, "JPEG: unknown colour space of " +
                                          std::to_string(info.num_components) + " components");
  }
  const bool cmyk = stored == JCS_CMYK || stored == JCS_YCCK;
  const unsigned eighths =
      eighths_for(std::min(info.image_width, info.image_height), options.min_shorter_side);
  if (!reader.configure(eighths, cmyk ? JCS_CMYK : JCS_RGB)) return reader.status();

  Decoded d;
  d.format = PhotoFormat::kJpeg;
  d.orientation = reader.orientation();
  bool broken = false;
  const std::vector<uint8_t> profile = assemble_profile(info, broken);
  d.image = Image(static_cast<int>(info.output_width), static_cast<int>(info.output_height));
  if (cmyk) {
    const size_t stride = size_t{4} * info.output_width;
    std::vector<uint8_t> inks(stride * info.output_height);
    if (!reader.read_rows(inks.data(), stride)) return reader.status();
    // Photoshop, and everybody after it, stores CMYK inverted.
    rgb_from_cmyk(inks, true, d.image.rgb.data());
  } else if (!reader.read_rows(d.image.rgb.data(), d.image.stride())) {
    return reader.status();
  }
  d.warnings = reader.harmless() + (broken ? 1 : 0);
  to_srgb(profile, d);
  return d;
}

void rgb_from_cmyk(std::span<const uint8_t> inks, bool inverted, uint8_t* rgb) {
  const uint8_t flip = inverted ? 0xff : 0;
  for (size_t i = 0; i + 3 < inks.size(); i += 4, rgb += 3) {
    const int white = 255 - (inks[i + 3] ^ flip);
    for (size_t c = 0; c < 3; ++c) {
      rgb[c] = static_cast<uint8_t>(white - times_over_255(inks[i + c] ^ flip, white));
    }
  }
}

}  // namespace ndtrain::ndp::codec

std::string ndtrain::ndp::jpeg_decoder() {
#ifdef LIBJPEG_TURBO_VERSION_NUMBER
  return "libjpeg-turbo " + std::to_string(LIBJPEG_TURBO_VERSION_NUMBER);
#else
  return "libjpeg " + std::to_string(JPEG_LIB_VERSION);
#endif
}
