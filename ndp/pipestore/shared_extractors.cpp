#include "ndp/pipestore/shared_extractors.h"

#include <algorithm>

namespace ndtrain::ndp {

std::shared_ptr<Extractor> SharedExtractors::get(const std::string& sha256, bool whole,
                                                 const Make& make) {
  const std::lock_guard lock(mutex_);
  std::erase_if(all_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Extractor>& known = all_[{sha256, whole}];
  std::shared_ptr<Extractor> extractor = known.lock();
  if (!extractor) {
    extractor = make();
    known = extractor;
  }
  return extractor;
}

size_t SharedExtractors::held() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::ranges::count_if(all_, [](const auto& entry) { return !entry.second.expired(); }));
}

}  // namespace ndtrain::ndp
