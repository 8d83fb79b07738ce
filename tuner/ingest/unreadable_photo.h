#pragma once

#include <optional>
#include <string>

#include "framework/core/hash.h"

namespace ndtrain::tuner {

// A photo that those who have it cannot read, as one of them says.
struct UnreadablePhoto {
  std::optional<Digest> photo;  // absent: it is no whole photo, and was not looked into
  std::string store;
  std::string path;  // below the store's photos; "": the Tuner read it, and does not know
  std::string why;
};

}  // namespace ndtrain::tuner
