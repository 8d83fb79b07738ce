// Models in the memory of a process, each once, however many tasks, collections and jobs use them:
// their weights are most of what a version takes of the memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "ndp/jobs/model_file.h"
#include "ndp/pipestore/network.h"

namespace ndtrain::ndp {

// Values by key, as long as somebody has them. Thread-safe.
template <typename Key, typename T>
class SharedValues {
 public:
  using Make = std::function<std::shared_ptr<T>()>;

  // What somebody has of this key, or what `make` makes; who asks meanwhile waits. Nobody has it
  // any more when the last lets go of it. What `make` throws is thrown, and the next one asked.
  std::shared_ptr<T> get(const Key& key, const Make& make) {
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<T>& known = all_[key];
    std::shared_ptr<T> value = known.lock();
    if (!value) {
      value = make();
      known = value;
      ++made_;
    }
    return value;
  }

  size_t held() const {  // that somebody has
    const std::lock_guard lock(mutex_);
    return static_cast<size_t>(
        std::ranges::count_if(all_, [](const auto& entry) { return !entry.second.expired(); }));
  }
  uint64_t made() const {  // so far
    const std::lock_guard lock(mutex_);
    return made_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<Key, std::weak_ptr<T>> all_;
  uint64_t made_ = 0;
};

// Extractors as they were loaded, by the SHA-256 of their file. Who runs one makes plans of it.
using SharedModels = SharedValues<std::string, const ModelFile>;

// Those that label uploads, with their plans: by the SHA-256 of the file, as a whole model or not.
using SharedExtractors = SharedValues<std::pair<std::string, bool>, Extractor>;

}  // namespace ndtrain::ndp
