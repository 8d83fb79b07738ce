#pragma once

#include <string>
#include <string_view>

#include "ndp/sandbox/decoder_pool.h"

namespace ndtrain::ndp {

// Which photos are decoded in processes of their own.
enum class SandboxMode : uint8_t { kOff, kUploads, kAll };
std::string_view name_of(SandboxMode mode);  // "off", "uploads", "all"
// Throws Error for another name.
SandboxMode sandbox_mode(std::string_view name);

// Photos that people uploaded, by the names they are kept under (is_upload_path), are decoded by a
// DecoderPool; others in this process, or all of them there.
class UploadDecoder final : public PhotoDecoder {
 public:
  // `mode`: kUploads or kAll; `uploads`: what they are called. Throws Error as DecoderPool does.
  // Logs what holds the pool's processes, and warns of what does not.
  UploadDecoder(SandboxMode mode, const DecoderPool::Config& config,
                const char* uploads = "uploaded photos");

  Result<Image> decode(const std::string& name, std::string_view file, const DecodeOptions& options,
                       const Preprocess* crop, PhotoCost& cost) override;

  const DecoderPool& pool() const { return pool_; }

 private:
  const SandboxMode mode_;
  DecoderPool pool_;
};

}  // namespace ndtrain::ndp
