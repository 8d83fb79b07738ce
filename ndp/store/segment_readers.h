#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "framework/core/fs.h"

namespace ndtrain::ndp {

// Open segment files for reading; the oldest are closed when there are many. A file in somebody's
// hands stays readable whatever happens to its name. Thread-safe.
class SegmentReaders {
 public:
  SegmentReaders(Fs& fs, std::string directory) : fs_(fs), directory_(std::move(directory)) {}

  Result<std::shared_ptr<File>> get(uint32_t number);
  // These are not closed any more, as far as they can be opened.
  void keep_open(const std::vector<uint32_t>& numbers);
  void forget(uint32_t number);

 private:
  static constexpr size_t kMaxOpen = 128;

  Fs& fs_;
  const std::string directory_;
  std::mutex mutex_;
  std::map<uint32_t, std::shared_ptr<File>> open_;
  std::map<uint32_t, std::shared_ptr<File>> kept_;
  std::deque<uint32_t> order_;
};

}  // namespace ndtrain::ndp
