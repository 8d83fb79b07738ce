// Pools of hostile decoders (hostile_decoder.cpp).
#pragma once

#include <string>

#include "ndp/sandbox/decoder_pool.h"

namespace ndtrain::testing {
using namespace ndp;

inline DecoderPool::Config hostile_config() {
  DecoderPool::Config config;
  config.worker.program = NDT_HOSTILE_DECODER;
  config.worker.limits.memory = int64_t{512} << 20;
  config.worker.deadline = std::chrono::seconds(60);
  config.workers = 1;
  return config;
}

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

}  // namespace ndtrain::testing
