#pragma once

#include <string_view>

namespace ndtrain::ndp {

// Whether a path is one of an object store (ndp/s3, ndp/rados), and no file of this machine:
// reading it waits for others, who may be away for a while.
inline bool is_object_url(std::string_view path) {
  return path.starts_with("s3://") || path.starts_with("rados://");
}

}  // namespace ndtrain::ndp
