// The extractors that label uploads in a process, each once, however many tasks and collections
// have versions with it: their weights are most of what a version takes of the memory. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "ndp/pipestore/network.h"

namespace ndtrain::ndp {

class SharedExtractors {
 public:
  using Make = std::function<std::shared_ptr<Extractor>()>;

  // Of the file with this SHA-256, as a whole model or not: what somebody has of it, or what `make`
  // makes; who asks meanwhile waits. Nobody has it any more when the last lets go of it.
  std::shared_ptr<Extractor> get(const std::string& sha256, bool whole, const Make& make);
  size_t held() const;  // that somebody has

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, bool>, std::weak_ptr<Extractor>> all_;
};

}  // namespace ndtrain::ndp
