// A file of an object store, where objects are put whole: not there before append(), which happens
// once, with all of its bytes; durable then.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "framework/core/fs.h"

namespace ndtrain {

class WriteOnceFile : public File {
 public:
  // `name`: as errors have it.
  explicit WriteOnceFile(std::string name) : name_(std::move(name)) {}

  Status append(std::span<const std::byte> bytes) final {
    if (size_ >= 0) return written_at_once();
    Status s = put({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (s.ok()) size_ = static_cast<int64_t>(bytes.size());
    return s;
  }
  Result<size_t> read_at(int64_t, std::span<std::byte>) final { return written_at_once(); }
  Result<int64_t> size() final { return std::max<int64_t>(size_, 0); }
  Status truncate(int64_t) final { return written_at_once(); }

 private:
  virtual Status put(std::string_view bytes) = 0;
  Status try_sync() final { return {}; }  // what was answered is durable
  Status written_at_once() const {
    return {Code::kUnsupported, name_ + ": an object is written at once"};
  }

  const std::string name_;
  int64_t size_ = -1;  // none yet
};

}  // namespace ndtrain
