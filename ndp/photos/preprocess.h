// From a photo's pixels to a network's input, as torchvision's Resize, CenterCrop, ToTensor and
// Normalize do it on PIL images. It is part of an extractor's identity and travels in the model
// file.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "ndp/photos/decode.h"
#include "ndp/photos/image.h"
#include "ndp/photos/resize.h"

namespace ndtrain::ndp {

enum class Layout : uint8_t { kNchw, kNhwc };

struct Preprocess {
  int img_size = 224;  // side of the square the network sees
  int resize = 256;    // length of the shorter side before the centre is cut out
  Interpolation interpolation = Interpolation::kBilinear;
  bool squash = false;  // resize to the square whatever the shape; `resize` is not used then
  std::array<float, 3> mean = {0.485f, 0.456f, 0.406f};
  std::array<float, 3> std = {0.229f, 0.224f, 0.225f};
  Layout layout = Layout::kNchw;
  bool fast_decode = false;  // scaled DCT: up to twice as fast, other pixels

  size_t values() const {
    return size_t{3} * img_size * img_size;
  }  // bytes of a crop, floats of an input
  bool operator==(const Preprocess&) const = default;
};

// Throws Error naming the member: sizes outside 1 … kLargestInput, std not positive, not finite.
void validate(const Preprocess& p);
inline constexpr int kLargestInput = 8192;

// timm's crop_pct: the value of `resize` that lets `img_size` be this share of the shorter side.
// Throws Error unless 0 < crop_pct <= 1.
int resize_for_crop_pct(int img_size, double crop_pct);

// One key per member ("preprocess.img_size", …), the same text for equal values on every machine,
// so that it can be hashed. Floats are written so that they read back exactly.
std::map<std::string, std::string> to_metadata(const Preprocess& p);
// Other keys are ignored and absent ones have their default; nullopt when no key is ours. Throws
// Error for a value that does not parse or is not valid, and for an unknown "preprocess." key.
std::optional<Preprocess> from_metadata(const std::map<std::string, std::string>& metadata);
// One line for people: "resize 256 bilinear, crop 224, mean …".
std::string describe(const Preprocess& p);

DecodeOptions decode_options(const Preprocess& p);

// img_size x img_size. Where the resized photo is smaller it is centred in black. Thread-safe.
Image crop(const Image& photo, const Preprocess& p);
// The pixels in the box and no others, resized to img_size x img_size, as torchvision's
// resized_crop does it. Throws Error where the box is not inside the photo. Thread-safe.
Image crop(const Image& photo, const PixelBox& box, const Preprocess& p);

// (x / 255 - mean) / std in f32, in that order, to p.values() floats in p.layout. Throws Error when
// the image is not img_size x img_size. Thread-safe.
void normalize(const Image& image, const Preprocess& p, float* out);

}  // namespace ndtrain::ndp
