// The stores that the Tuner knows, over its restarts:
//   stores.json   {"format": 1, "stores": {"attic": {"photos": 100, "last_seen": 1763900000,
//                  "deletions": 3, "drained": false}}}; absent until there was one
// Where there is none, the stores of drained.json are known, which older versions kept.
//
// One thread. A failing fsync throws FsyncFailed.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "framework/core/fs.h"

namespace ndtrain::tuner {

struct KnownStore {
  uint64_t photos = 0;     // that it said it has
  int64_t last_seen = 0;   // Unix seconds
  uint64_t deletions = 0;  // photos it has let go of
  bool drained = false;    // it is given no work
  bool operator==(const KnownStore&) const = default;
};

class KnownStores {
 public:
  // Throws Error naming the file when it cannot be read or is of another format.
  KnownStores(Fs& fs, std::string directory);

  const std::map<std::string, KnownStore>& all() const { return stores_; }
  // Durable on return, or as it was.
  Status put(const std::string& name, const KnownStore& store);
  Status forget(const std::string& name);

 private:
  Status keep(std::map<std::string, KnownStore> stores);

  Fs& fs_;
  const std::string path_, older_;
  std::map<std::string, KnownStore> stores_;
};

}  // namespace ndtrain::tuner
