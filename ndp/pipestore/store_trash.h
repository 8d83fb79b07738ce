// What this store knows of the Tuner's trash, also while the Tuner is away: photos that are kept
// and not shown. trash.bin of the state directory: "NDTTRS1\n", u64 revision, { SHA-256 of a photo
// }*, u64 XXH3 of all before it. One that is damaged counts as absent: all comes again with the
// next session.
//
// Thread-safe.
#pragma once

#include <mutex>
#include <set>
#include <span>
#include <string>

#include "framework/core/fs.h"
#include "framework/core/hash.h"

namespace ndtrain::ndp {

class StoreTrash {
 public:
  // Throws Error where it cannot be read: what is in it would be shown.
  StoreTrash(Fs& fs, const std::string& path);

  // Whether the bytes of such a file are as they were written: kCorrupt.
  static Status check(const std::string& bytes);

  bool has(const Digest& photo) const;
  size_t size() const;        // photos
  uint64_t revision() const;  // that was heard of; 0: none

  // Durable on return, or nothing has changed.
  Status replace(const std::set<Digest>& photos, uint64_t revision);
  Status change(std::span<const Digest> photos, std::span<const Digest> restored,
                uint64_t revision);
  Status restore(const Digest& photo);  // here, before the Tuner has heard of it

 private:
  Status keep(std::set<Digest> photos, uint64_t revision);  // under mutex_

  Fs& fs_;
  const std::string path_;
  mutable std::mutex mutex_;  // of these
  std::set<Digest> photos_;
  uint64_t revision_ = 0;
};

}  // namespace ndtrain::ndp
