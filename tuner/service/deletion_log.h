// Photos that were deleted, in the order in which people asked for it: they are not taken in again,
// and every store hears of each. Which stores have heard of how many, the stores know: a number and
// a mark, which is that of the list up to there, so that one which knows another list (of a Tuner
// before it was restored, say) hears of all.
//
//   deletions        "NDTDEL1\n" { SHA-256 of a photo, u64 mark }*    mark: XXH3 of the one before
//                                                                     and the SHA-256
//   forgotten.json   of how many the Tuner itself has let go
//
// An entry that the disk has damaged costs no other.
//
// One thread.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/hash.h"

namespace ndtrain::tuner {

class DeletionLog {
 public:
  // Of this directory. What a crash left of a last addition goes. Throws Error.
  DeletionLog(Fs& fs, const std::string& directory);

  // Whether these bytes of a list are as they were written: kCorrupt, and which entry is not.
  static Status check(std::string_view bytes);

  // Those that are not there yet; durable on return, or none of them.
  Status add(std::span<const Digest> photos);
  bool has(const Digest& photo) const { return known_.contains(photo); }
  uint64_t size() const { return photos_.size(); }
  uint64_t mark(uint64_t n) const { return n == 0 ? 0 : marks_.at(n - 1); }  // of the first n
  std::span<const Digest> from(uint64_t n) const { return std::span(photos_).subspan(n); }

  uint64_t forgotten() const { return forgotten_; }
  Status forget_first(uint64_t n);  // the Tuner has

 private:
  size_t read(std::string_view records);
  void take(const Digest& photo, uint64_t mark);
  Status append(std::string_view bytes);  // to the file

  Fs& fs_;
  const std::string path_, forgotten_path_;
  std::vector<Digest> photos_;
  std::vector<uint64_t> marks_;
  std::set<Digest> known_;
  uint64_t forgotten_ = 0;
};

}  // namespace ndtrain::tuner
