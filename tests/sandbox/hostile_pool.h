// Sandboxes of hostile decoders and importers (hostile_decoder.cpp).
#pragma once

#include <string>

#include "ndp/sandbox/decoder_pool.h"
#include "ndp/sandbox/model_sandbox.h"

namespace ndtrain::testing {
using namespace ndp;

DecoderPool::Config hostile_config();
ModelSandbox::Config hostile_models();

inline Result<Image> decoded_by(PhotoDecoder& decoder, const std::string& file,
                                const std::string& name = "a.jpg") {
  PhotoCost cost;
  return decoder.decode(name, file, {}, nullptr, cost);
}

// How many of its workers have ended so.
inline int64_t ended(const DecoderPool& pool, WorkerEnd end) {
  return pool.counts().ended[static_cast<size_t>(end)];
}

inline bool is_stopped(const Status& s) {
  return s.code() == Code::kCorrupt && s.message().starts_with("its decoder was stopped: ");
}

// The answer to a model's file.
inline Status checked_by(ModelCheck& check, const std::string& file) {
  return check.check(sha256(file), file);
}

inline int64_t ended(const ModelSandbox& sandbox, WorkerEnd end) {
  return sandbox.counts().ended[static_cast<size_t>(end)];
}

}  // namespace ndtrain::testing
