#include "ndp/photos/preprocess.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

#include "framework/core/error.h"

namespace ndtrain::ndp {
namespace {

constexpr std::string_view kPrefix = "preprocess.";

std::string text_of(const std::array<float, 3>& v) {
  return fmt::format("{},{},{}", v[0], v[1], v[2]);
}

template <typename T>
T number(std::string_view key, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Error("metadata ", key, ": '", text, "' is not a number");
  }
  return value;
}

std::array<float, 3> three(std::string_view key, std::string_view text) {
  std::array<float, 3> v{};
  for (int i = 0; i < 3; ++i) {
    const size_t comma = i < 2 ? text.find(',') : text.size();
    if (comma == std::string_view::npos) throw Error("metadata ", key, ": three numbers expected");
    v[i] = number<float>(key, text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return v;
}

// The index of `text` among `names`.
template <typename E>
E choice(std::string_view key, std::string_view text, std::string_view zero, std::string_view one) {
  if (text == zero) return static_cast<E>(0);
  if (text == one) return static_cast<E>(1);
  throw Error("metadata ", key, ": '", text, "' is neither ", zero, " nor ", one);
}

void set(Preprocess& p, std::string_view key, std::string_view name, std::string_view text) {
  if (name == "img_size") {
    p.img_size = number<int>(key, text);
  } else if (name == "resize") {
    p.resize = number<int>(key, text);
  } else if (name == "interpolation") {
    p.interpolation = choice<Interpolation>(key, text, "bilinear", "bicubic");
  } else if (name == "squash") {
    p.squash = choice<bool>(key, text, "false", "true");
  } else if (name == "mean") {
    p.mean = three(key, text);
  } else if (name == "std") {
    p.std = three(key, text);
  } else if (name == "layout") {
    p.layout = choice<Layout>(key, text, "nchw", "nhwc");
  } else if (name == "fast_decode") {
    p.fast_decode = choice<bool>(key, text, "false", "true");
  } else {
    throw Error("metadata ", key, ": unknown key; written by a newer version?");
  }
}

void check_side(const char* name, int value) {
  if (value < 1 || value > kLargestInput) {
    throw Error("preprocess: ", name, " is ", value, ", not in 1 … ", kLargestInput);
  }
}

// Python's round(n / 2): halves go to the even number.
int half_rounded_to_even(int n) {
  const int down = n / 2;
  return n % 2 == 0 || down % 2 == 0 ? down : down + 1;
}

struct Size {
  int width, height;
};

Size resized(const Image& photo, const Preprocess& p) {
  if (p.squash) return {p.img_size, p.img_size};
  const int shorter = std::min(photo.width, photo.height);
  const int longer = std::max(photo.width, photo.height);
  const auto along = static_cast<int>(static_cast<double>(int64_t{p.resize} * longer) / shorter);
  return photo.width <= photo.height ? Size{p.resize, along} : Size{along, p.resize};
}

// How one axis of the resized photo maps to the crop.
struct Span {
  int from, to, length;
};

Span centred(int have, int want) {
  if (have >= want) return {.from = half_rounded_to_even(have - want), .to = 0, .length = want};
  return {.from = 0, .to = (want - have) / 2, .length = have};
}

}  // namespace

void validate(const Preprocess& p) {
  check_side("img_size", p.img_size);
  check_side("resize", p.resize);
  for (int c = 0; c < 3; ++c) {
    if (!std::isfinite(p.mean[c]))
      throw Error("preprocess: mean ", text_of(p.mean), " is not finite");
    if (!std::isfinite(p.std[c]) || p.std[c] <= 0) {
      throw Error("preprocess: std ", text_of(p.std), " is not positive");
    }
  }
}

int resize_for_crop_pct(int img_size, double crop_pct) {
  if (!(crop_pct > 0 && crop_pct <= 1)) {
    throw Error("preprocess: crop_pct is ", crop_pct, ", not in (0, 1]");
  }
  const double side = std::floor(img_size / crop_pct);
  if (side > kLargestInput) throw Error("preprocess: crop_pct ", crop_pct, " is too small");
  return static_cast<int>(side);
}

std::map<std::string, std::string> to_metadata(const Preprocess& p) {
  const std::string prefix(kPrefix);
  return {
      {prefix + "img_size", fmt::format("{}", p.img_size)},
      {prefix + "resize", fmt::format("{}", p.resize)},
      {prefix + "interpolation",
       p.interpolation == Interpolation::kBilinear ? "bilinear" : "bicubic"},
      {prefix + "squash", p.squash ? "true" : "false"},
      {prefix + "mean", text_of(p.mean)},
      {prefix + "std", text_of(p.std)},
      {prefix + "layout", p.layout == Layout::kNchw ? "nchw" : "nhwc"},
      {prefix + "fast_decode", p.fast_decode ? "true" : "false"},
  };
}

std::optional<Preprocess> from_metadata(const std::map<std::string, std::string>& metadata) {
  Preprocess p;
  bool found = false;
  for (const auto& [key, text] : metadata) {
    if (!key.starts_with(kPrefix)) continue;
    set(p, key, std::string_view(key).substr(kPrefix.size()), text);
    found = true;
  }
  if (!found) return std::nullopt;
  validate(p);
  return p;
}

std::string describe(const Preprocess& p) {
  const char* filter = p.interpolation == Interpolation::kBilinear ? "bilinear" : "bicubic";
  const std::string shape =
      p.squash ? fmt::format("squash to {} {}", p.img_size, filter)
               : fmt::format("resize {} {}, crop {}", p.resize, filter, p.img_size);
  return fmt::format("{}, mean {}, std {}, {}{}", shape, text_of(p.mean), text_of(p.std),
                     p.layout == Layout::kNchw ? "NCHW" : "NHWC",
                     p.fast_decode ? ", fast decode" : "");
}

DecodeOptions decode_options(const Preprocess& p) {
  if (!p.fast_decode) return {};
  return {.min_shorter_side = p.squash ? p.img_size : p.resize};
}

Image crop(const Image& photo, const Preprocess& p) {
  validate(p);
  if (photo.width <= 0 || photo.height <= 0) throw Error("crop: the photo is empty");
  const Size size = resized(photo, p);
  const Span x = centred(size.width, p.img_size), y = centred(size.height, p.img_size);
  Image out(p.img_size, p.img_size);
  resize(photo, size.width, size.height, p.interpolation,
         {.left = x.from, .top = y.from, .width = x.length, .height = y.length},
         out.row(y.to) + size_t{3} * x.to, out.stride());
  return out;
}

Image crop(const Image& photo, const PixelBox& box, const Preprocess& p) {
  validate(p);
  if (box.left < 0 || box.top < 0 || box.width < 1 || box.height < 1 ||
      box.left > photo.width - box.width || box.top > photo.height - box.height) {
    throw Error("crop: box ", box.width, "x", box.height, " at ", box.left, ",", box.top,
                " is not inside ", photo.width, "x", photo.height);
  }
  Image part(box.width, box.height);
  for (int y = 0; y < box.height; ++y) {
    std::memcpy(part.row(y), photo.row(box.top + y) + size_t{3} * box.left, part.stride());
  }
  return resize(part, p.img_size, p.img_size, p.interpolation);
}

void normalize(const Image& image, const Preprocess& p, float* out) {
  if (image.width != p.img_size || image.height != p.img_size) {
    throw Error("normalize: image is ", image.width, "x", image.height, ", the input ", p.img_size);
  }
  // A byte has 256 values: the divisions are done once for each.
  std::array<std::array<float, 256>, 3> value;
  for (int c = 0; c < 3; ++c) {
    for (int x = 0; x < 256; ++x) {
      value[c][x] = (static_cast<float>(x) / 255.0f - p.mean[c]) / p.std[c];
    }
  }
  const size_t pixels = image.rgb.size() / 3;
  const uint8_t* in = image.rgb.data();
  const bool planar = p.layout == Layout::kNchw;
  const size_t step = planar ? 1 : 3, plane = planar ? pixels : 1;
  for (size_t i = 0; i < pixels; ++i, in += 3, out += step) {
    out[0] = value[0][in[0]];
    out[plane] = value[1][in[1]];
    out[2 * plane] = value[2][in[2]];
  }
}

}  // namespace ndtrain::ndp
