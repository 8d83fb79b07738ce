// Which seeds a test draws its cases from.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace ndtrain::testing {

struct Seeds {
  uint64_t first = 0, count = 1;
};

// NDT_SIM_SEEDS=FIRST:COUNT, or SEED for one, in place of the usual ones, which are the first.
inline Seeds seeds_or(uint64_t usual) {
  Seeds s{.count = usual};
  if (const char* text = std::getenv("NDT_SIM_SEEDS")) {
    char* rest = nullptr;
    s = {.first = std::strtoull(text, &rest, 10), .count = 1};
    if (*rest == ':') s.count = std::strtoull(rest + 1, nullptr, 10);
  }
  return s;
}

}  // namespace ndtrain::testing
