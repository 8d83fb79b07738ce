// The jobs of simulations: small, of a number of stores that are waited for.
#pragma once

#include "framework/core/hash.h"
#include "tuner/jobs/job_spec.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

inline constexpr double kStoreTimeout = 600;

inline JobSpec relabelling(size_t stores, bool allow_missing) {
  JobSpec spec;
  spec.kind = JobKind::kRelabel;
  spec.stores = static_cast<uint32_t>(stores);
  spec.store_timeout = kStoreTimeout;
  spec.allow_missing = allow_missing;
  return spec;
}

inline JobSpec finetuning(const Digest& model, size_t stores, bool allow_missing) {
  JobSpec spec;
  spec.model = to_hex(model);
  spec.stores = static_cast<uint32_t>(stores);
  spec.store_timeout = kStoreTimeout;
  spec.allow_missing = allow_missing;
  spec.seed = 7;
  spec.runs = 2;
  spec.trainer = {.epochs = 2, .batch = 32, .schedule = {.lr = 0.05}, .seed = 7};
  spec.head = "linear";
  spec.memory = 1 << 20;
  spec.disk = 1 << 28;
  return spec;
}

}  // namespace ndtrain::sim
