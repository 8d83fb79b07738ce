// Where a job's list of photos (manifest.cbor) has its digests. They lie there as they are, in byte
// order, so that a photo is found in a list of millions by a few reads of 32 bytes.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "framework/core/fs.h"
#include "framework/core/hash.h"

namespace ndtrain::tuner {

class ListedDigests {
 public:
  // In the bytes of the list, which have been checked, of the file that was so when it was read.
  // None: they are not where they are expected, or in no order.
  static std::optional<ListedDigests> find(std::string_view list, const FileInfo& file);

  // Whether the file that is there is the one that was read, as far as that can be told.
  bool are_in(const FileInfo& file) const;
  Result<bool> has_any(Fs& fs, const std::string& path, const std::set<Digest>& photos) const;
  uint64_t size() const { return count_; }

 private:
  ListedDigests(FileInfo file, int64_t offset, uint64_t count)
      : file_(file), offset_(offset), count_(count) {}

  FileInfo file_;
  int64_t offset_ = 0;
  uint64_t count_ = 0;
};

}  // namespace ndtrain::tuner
