// Files of photos that are far away, in a store that has features and crops of them too: as long as
// there is room, one that was fetched to be hashed is not fetched again to be decoded.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>

#include "framework/core/hash.h"
#include "ndp/store/segment_store.h"

namespace ndtrain::ndp {

// Any thread.
class FetchedFiles {
 public:
  explicit FetchedFiles(SegmentStore& store) : store_(store) {}

  std::optional<std::string> get(const Digest& photo);
  // They take half of the store at most, and nothing goes for them.
  void keep(const Digest& photo, std::string_view file);

 private:
  SegmentStore& store_;
  std::atomic<bool> failed_ = false;
};

}  // namespace ndtrain::ndp
