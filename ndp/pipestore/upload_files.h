// Where the files of uploads go: beside the photos where these are in an S3, else below the store's
// state, and so also what an S3 does not take: where the keys may not write there, or another
// object has the photo's name. Thread-safe.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "framework/core/fs.h"
#include "ndp/store/disk_budget.h"

namespace ndtrain::ndp {

class UploadFiles {
 public:
  UploadFiles(Fs& fs, std::string photos, std::string state);  // throws Error

  // Why nothing is taken; "": it is.
  std::string refusal() const;
  // Durable on return; the path by which StorePhotos has it, for one that upload_path() made.
  // kNoSpace; kUnavailable: the S3 is away; kUnsupported: see refusal(). Nothing is kept then.
  Result<std::string> keep(const std::string& path, const std::string& file);
  // Below the state, in place of what is there.
  Status keep_in_state(const std::string& path, const std::string& file);

 private:
  Status put(const std::string& path, const std::string& file);
  Status book(int64_t bytes);

  Fs& fs_;
  const std::string photos_, state_;
  std::mutex mutex_;  // of all below
  DiskBudget room_;
  std::set<std::string> made_;  // directories
  bool denied_ = false;         // the S3 took no more, the last time
};

}  // namespace ndtrain::ndp
