#include "ndp/photos/photo_decoder.h"

#include <optional>
#include <span>

#include "framework/core/stopwatch.h"
#include "ndp/photos/verdict.h"

namespace ndtrain::ndp {
namespace {

class InProcess final : public PhotoDecoder {
 public:
  Result<Image> decode(const std::string& name, std::string_view file, const DecodeOptions& options,
                       const Preprocess* preprocess, PhotoCost& cost) override {
    const auto bytes = std::as_bytes(std::span(file));
    const Verdict verdict = judge_photo(name, bytes);
    if (verdict.state == PhotoState::kSkipped) return Status(Code::kUnsupported, verdict.reason);
    if (verdict.state != PhotoState::kOk) return Status(Code::kCorrupt, verdict.reason);
    std::optional<Result<Decoded>> decoded;
    {
      const Stopwatch decoding(cost.decode_s);
      decoded.emplace(ndp::decode(bytes, options));
    }
    if (!decoded->ok()) return decoded->status();
    Decoded& photo = **decoded;
    cost.warnings += photo.warnings;
    if (preprocess == nullptr) return std::move(photo.image);
    const Stopwatch resizing(cost.resize_s);
    return crop(photo.image, *preprocess);
  }
};

}  // namespace

PhotoDecoder& decoder_in_process() {
  static InProcess decoder;
  return decoder;
}

Result<Image> decode_photo(const std::string& name, std::string_view file,
                           const DecodeOptions& options, PhotoCost& cost, PhotoDecoder& by) {
  return by.decode(name, file, options, nullptr, cost);
}

Result<Image> crop_photo(const std::string& name, std::string_view file,
                         const Preprocess& preprocess, PhotoCost& cost, PhotoDecoder& by) {
  return by.decode(name, file, decode_options(preprocess), &preprocess, cost);
}

Status preprocess_photo(const std::string& name, std::string_view file,
                        const Preprocess& preprocess, float* out, PhotoCost& cost,
                        PhotoDecoder& by) {
  const Result<Image> image = crop_photo(name, file, preprocess, cost, by);
  if (!image.ok()) return image.status();
  const Stopwatch watch(cost.normalise_s);
  normalize(*image, preprocess, out);
  return {};
}

}  // namespace ndtrain::ndp
