// HEIC. Versions of libheif before 1.16 round RGB otherwise than later ones, by a level.
#include <libheif/heif.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "framework/core/limits.h"
#include "ndp/photos/codec.h"

namespace ndtrain::ndp::codec {
namespace {

struct FreeHeif {
  void operator()(heif_context* c) const { heif_context_free(c); }
  void operator()(heif_image_handle* h) const { heif_image_handle_release(h); }
  void operator()(heif_image* i) const { heif_image_release(i); }
  void operator()(heif_decoding_options* o) const { heif_decoding_options_free(o); }
};
template <typename T>
using Heif = std::unique_ptr<T, FreeHeif>;

Status status_of(PhotoFormat format, const heif_error& e) {
  const std::string what =
      std::string(name_of(format)) + ": " + (e.message != nullptr ? e.message : "damaged");
  switch (e.code) {
    case heif_error_Ok:
      return {};
    case heif_error_Unsupported_filetype:
    case heif_error_Unsupported_feature:
    case heif_error_Color_profile_does_not_exist:
      return {Code::kUnsupported, what};
    case heif_error_Memory_allocation_error:
      return {Code::kTooLarge, what};
    default:
      return {Code::kCorrupt, what};
  }
}

// A file, and the image in it that its writer calls the primary one.
class HeifFile {
 public:
  Status open(std::span<const std::byte> file) {
    format_ = sniff(file);
    context_.reset(heif_context_alloc());
    if (context_ == nullptr) return {Code::kTooLarge, "libheif: out of memory"};
    // Older versions bound each side by it, newer ones the pixels by its square.
    constexpr bool kPixels = LIBHEIF_NUMERIC_VERSION >= 0x01130000;
    constexpr int kSide = kPixels ? 16384 : static_cast<int>(limits::kPhotoSide);
    static_assert(!kPixels || int64_t{kSide} * kSide == limits::kPhotoPixels);
    heif_context_set_maximum_image_size_limit(context_.get(), kSide);
    heif_context_set_max_decoding_threads(context_.get(), 0);  // this one alone
    heif_error e = heif_context_read_from_memory_without_copy(context_.get(), file.data(),
                                                              file.size(), nullptr);
    if (e.code != heif_error_Ok) return status_of(format_, e);
    heif_image_handle* handle = nullptr;
    e = heif_context_get_primary_image_handle(context_.get(), &handle);
    handle_.reset(handle);
    if (e.code != heif_error_Ok) return status_of(format_, e);
    if (Status s = check_size(format_, heif_image_handle_get_ispe_width(handle),
                              heif_image_handle_get_ispe_height(handle));
        !s.ok()) {
      return s;
    }
    return check_size(format_, width(), height());
  }

  // Turned and mirrored as the file says; EXIF says the same again, and is not asked.
  Result<Heif<heif_image>> decode() {
    const Heif<heif_decoding_options> options(heif_decoding_options_alloc());
    if (options == nullptr) return Status(Code::kTooLarge, "libheif: out of memory");
    // No strict decoding: libheif 1.15 then leaks an image whose stream has reserved colours.
    options->convert_hdr_to_8bit = 1;
    heif_image* image = nullptr;
    const heif_error e = heif_decode_image(handle_.get(), &image, heif_colorspace_RGB,
                                           heif_chroma_interleaved_RGB, options.get());
    Heif<heif_image> owned(image);
    if (e.code != heif_error_Ok) return status_of(format_, e);
    return owned;
  }

  std::vector<uint8_t> profile() const {
    std::vector<uint8_t> icc(heif_image_handle_get_raw_color_profile_size(handle_.get()));
    const heif_color_profile_type type = heif_image_handle_get_color_profile_type(handle_.get());
    if (type != heif_color_profile_type_prof && type != heif_color_profile_type_rICC) return {};
    const heif_error e = heif_image_handle_get_raw_color_profile(handle_.get(), icc.data());
    return e.code == heif_error_Ok ? icc : std::vector<uint8_t>();
  }

  PhotoFormat format() const { return format_; }
  int width() const { return heif_image_handle_get_width(handle_.get()); }
  int height() const { return heif_image_handle_get_height(handle_.get()); }

 private:
  PhotoFormat format_ = PhotoFormat::kUnknown;
  Heif<heif_context> context_;
  Heif<heif_image_handle> handle_;
};

void load_codecs() {
#if LIBHEIF_NUMERIC_VERSION >= 0x010d0000
  static const bool loaded = heif_init(nullptr).code == heif_error_Ok;
  (void)loaded;
#endif
}

}  // namespace

bool heif_decodes() {
  load_codecs();
  static const bool hevc = heif_have_decoder_for_format(heif_compression_HEVC) != 0;
  return hevc;
}

Result<PhotoHeader> read_heif_header(std::span<const std::byte> bytes) {
  HeifFile file;
  if (Status s = file.open(bytes); !s.ok()) return s;
  return PhotoHeader{.format = file.format(), .width = file.width(), .height = file.height()};
}

Result<Decoded> decode_heif(std::span<const std::byte> bytes, const DecodeOptions&) {
  HeifFile file;
  if (Status s = file.open(bytes); !s.ok()) return s;
  const Result<Heif<heif_image>> image = file.decode();
  if (!image.ok()) return image.status();
  int stride = 0;
  const uint8_t* rows =
      heif_image_get_plane_readonly(image->get(), heif_channel_interleaved, &stride);
  const int width = heif_image_get_width(image->get(), heif_channel_interleaved);
  const int height = heif_image_get_height(image->get(), heif_channel_interleaved);
  if (Status s = check_size(file.format(), width, height); !s.ok()) return s;
  Decoded d;
  d.format = file.format();
  d.image = Image(width, height);
  d.warnings = heif_image_get_decoding_warnings(image->get(), 0, nullptr, 0);
  if (rows == nullptr || stride < 0 || static_cast<size_t>(stride) < d.image.stride()) {
    return Status(Code::kCorrupt, "HEIC: no pixels");
  }
  for (int y = 0; y < height; ++y) {
    std::memcpy(d.image.row(y), rows + size_t{static_cast<unsigned>(stride)} * y, d.image.stride());
  }
  to_srgb(file.profile(), d);
  return d;
}

std::string heif_library() { return std::string("libheif ") + heif_get_version(); }

}  // namespace ndtrain::ndp::codec
