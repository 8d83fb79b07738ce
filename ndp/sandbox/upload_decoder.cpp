#include "ndp/sandbox/upload_decoder.h"

#include "framework/core/error.h"
#include "framework/core/log.h"
#include "ndp/photos/upload_path.h"

namespace ndtrain::ndp {

std::string_view name_of(SandboxMode mode) {
  switch (mode) {
    case SandboxMode::kOff:
      break;
    case SandboxMode::kUploads:
      return "uploads";
    case SandboxMode::kAll:
      return "all";
  }
  return "off";
}

SandboxMode sandbox_mode(std::string_view name) {
  for (const SandboxMode m : {SandboxMode::kOff, SandboxMode::kUploads, SandboxMode::kAll}) {
    if (name_of(m) == name) return m;
  }
  throw Error("'", name, "': one of off, uploads, all");
}

UploadDecoder::UploadDecoder(SandboxMode mode, const DecoderPool::Config& config,
                             const char* uploads)
    : mode_(mode), pool_(config) {
  const char* what = mode == SandboxMode::kAll ? "all photos" : uploads;
  log::info("{} are decoded in a sandbox: {}", what, pool_.held_by());
  if (const std::string missing = pool_.missing(); !missing.empty()) {
    log::warn(
        "the sandbox in which {} are decoded lacks on this machine: {}; what a photo may do to "
        "its decoder is held by the rest (docs/security.md)",
        what, missing);
  }
}

Result<Image> UploadDecoder::decode(const std::string& name, std::string_view file,
                                    const DecodeOptions& options, const Preprocess* crop,
                                    PhotoCost& cost) {
  PhotoDecoder& by = mode_ == SandboxMode::kAll || is_upload_path(name)
                         ? static_cast<PhotoDecoder&>(pool_)
                         : decoder_in_process();
  return by.decode(name, file, options, crop, cost);
}

}  // namespace ndtrain::ndp
