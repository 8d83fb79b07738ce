// xxh3() of what comes part by part (hash.h has it of what is whole).
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "framework/core/error.h"

namespace ndtrain {

class RunningXxh3 {
 public:
  RunningXxh3() {
    if (!state_ || XXH3_64bits_reset(state_.get()) != XXH_OK) throw Error("XXH3: out of memory");
  }

  void update(std::span<const std::byte> bytes) {
    if (XXH3_64bits_update(state_.get(), bytes.data(), bytes.size()) != XXH_OK) {
      throw Error("XXH3: update failed");
    }
  }
  uint64_t sum() const { return XXH3_64bits_digest(state_.get()); }  // of all so far

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_{XXH3_createState(),
                                                                         XXH3_freeState};
};

}  // namespace ndtrain
