#pragma once

#include <string>

#include "framework/core/error.h"

namespace ndtrain::support {

// `text` with `by` in the place of the first `what`, which has to be there.
inline std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  if (at == std::string::npos) throw Error("test: no ", what);
  return text.replace(at, what.size(), by);
}

}  // namespace ndtrain::support
