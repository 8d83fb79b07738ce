// From a photo's file to pixels, checked against its name: in this process, or where another
// PhotoDecoder does it.
#pragma once

#include <string>
#include <string_view>

#include "framework/core/status.h"
#include "ndp/photos/decode.h"
#include "ndp/photos/image.h"
#include "ndp/photos/preprocess.h"

namespace ndtrain::ndp {

// What one photo took: harmless decoder warnings, and seconds.
struct PhotoCost {
  int64_t warnings = 0;
  double decode_s = 0, resize_s = 0, normalise_s = 0;
};

class PhotoDecoder {
 public:
  virtual ~PhotoDecoder() = default;
  // The pixels of `file`, once its content is what `name` says (judge_photo): upright, of its full
  // size or as `options` allow, or, where `crop` is given, what the network sees of them. Adds to
  // `cost`. kUnsupported: a format that this build does not read; kCorrupt, kTooLarge: no photo;
  // kIo: the decoder itself could not be had. Thread-safe.
  virtual Result<Image> decode(const std::string& name, std::string_view file,
                               const DecodeOptions& options, const Preprocess* crop,
                               PhotoCost& cost) = 0;
};

// On the caller's thread; lives as long as the process.
PhotoDecoder& decoder_in_process();

// The pixels of a photo file, once its content is what `name` says. Thread-safe.
Result<Image> decode_photo(const std::string& name, std::string_view file,
                           const DecodeOptions& options, PhotoCost& cost,
                           PhotoDecoder& by = decoder_in_process());
// The same, cropped to what the network sees.
Result<Image> crop_photo(const std::string& name, std::string_view file,
                         const Preprocess& preprocess, PhotoCost& cost,
                         PhotoDecoder& by = decoder_in_process());
// The same, normalised into `out` (preprocess.values() floats).
Status preprocess_photo(const std::string& name, std::string_view file,
                        const Preprocess& preprocess, float* out, PhotoCost& cost,
                        PhotoDecoder& by = decoder_in_process());

}  // namespace ndtrain::ndp
