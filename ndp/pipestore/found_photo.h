#pragma once

#include <string>

#include "framework/core/hash.h"

namespace ndtrain::ndp {

// A photo that a scan found at a path where it was not before.
struct FoundPhoto {
  Digest id{};
  std::string path;     // below the photo directory
  bool is_new = false;  // no scan that ended had seen these bytes anywhere
};

}  // namespace ndtrain::ndp
