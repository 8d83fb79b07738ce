// The stores that are given no work, as people have said:
//   drained.json   {"format": 1, "stores": ["attic"]}; absent until there was one
//
// One thread. A failing fsync throws FsyncFailed.
#pragma once

#include <set>
#include <string>

#include "framework/core/fs.h"

namespace ndtrain {

class DrainedStores {
 public:
  // Throws Error naming the file when it cannot be read or is of another format.
  DrainedStores(Fs& fs, std::string path);

  const std::set<std::string>& names() const { return names_; }
  Status set(const std::string& store, bool drained);  // durable on return, or as it was

 private:
  Fs& fs_;
  const std::string path_;
  std::set<std::string> names_;
};

}  // namespace ndtrain
