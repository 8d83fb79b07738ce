#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "framework/runtime/backend.h"

namespace ndtrain::testing {

// The cpu plugin, opened once per test program. Throws Error when it is not built.
inline const Device& cpu() {
  static const Device device(Backend::find("cpu"), {.deterministic = true});
  return device;
}

// It and every other plugin that was built and needs no hardware of its own.
inline const std::vector<const Device*>& host_devices() {
  static const std::vector<const Device*> devices = [] {
    std::vector<const Device*> all = {&cpu()};
    for (const std::string& name : Backend::available()) {
      if (name != "onednn") continue;
      static const Device onednn(Backend::find(name), {.deterministic = true});
      all.push_back(&onednn);
    }
    return all;
  }();
  return devices;
}

// Whether an instruction sums products of bytes exactly, as oneDNN's numerics say: without one the
// library has none.
inline bool has_vnni(std::string_view numerics) {
  constexpr std::array kFrom = {"vnni", "bf16", "avx10", "amx"};
  return std::ranges::any_of(
      kFrom, [&](std::string_view isa) { return numerics.find(isa) != std::string_view::npos; });
}

}  // namespace ndtrain::testing
