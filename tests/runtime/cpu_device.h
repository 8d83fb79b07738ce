#pragma once

#include "framework/runtime/backend.h"

namespace ndtrain::testing {

// The cpu plugin, opened once per test program. Throws Error when it is not built.
inline const Device& cpu() {
  static const Device device(Backend::find("cpu"), {.deterministic = true});
  return device;
}

}  // namespace ndtrain::testing
