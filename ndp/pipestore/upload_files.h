// Where the files of uploads go: beside the photos where these are in an object store (S3, RADOS),
// else below the store's state, and so also what that does not take: where this store may not write
// there, or another object has the photo's name. Thread-safe.
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

  // Durable on return; the path by which StorePhotos has it, for one that upload_path() made.
  // kNoSpace; kUnavailable: the object store is away; kTooLarge: for its objects. Nothing is kept
  // then.
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
  bool denied_ = false;         // the object store took no more, the last time
};

}  // namespace ndtrain::ndp
