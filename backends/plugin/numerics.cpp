#include "backends/plugin/numerics.h"

#include <cstdint>
#include <cstdio>

namespace ndtrain::plugin {

const char* Numerics::with(const Choices& unruly) {
  const std::lock_guard lock(mutex_);
  all_.insert(unruly.begin(), unruly.end());
  if (all_.empty()) return given_.insert(fixed_).first->c_str();
  uint64_t digest = 14695981039346656037U;  // FNV-1a
  for (const auto& [key, choice] : all_) {
    for (const char c : key + ' ' + choice + '\n') {
      digest = (digest ^ static_cast<unsigned char>(c)) * 1099511628211U;
    }
  }
  char text[17];
  std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(digest ^ digest >> 32));
  return given_.insert(fixed_ + " tuned-" + static_cast<char*>(text)).first->c_str();
}

}  // namespace ndtrain::plugin
