// An Fs that passes each path on to where it lies: s3://BUCKET/KEY to S3, all others to another Fs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/core/fs.h"

namespace ndtrain::ndp {

class RoutedFs : public Fs {
 public:
  explicit RoutedFs(Fs& others) : others_(others) {}

  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) final;
  Result<FileInfo> info(const std::string& path) final;
  Result<std::vector<std::string>> list(const std::string& directory) final;
  Status make_directories(const std::string& path) final;
  Status rename(const std::string& from, const std::string& to) final;
  Status remove(const std::string& path) final;
  Result<Space> space(const std::string& path) final;
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) final;

 private:
  // Of paths that are S3's.
  virtual Result<std::unique_ptr<File>> open_s3(const std::string& path) = 0;    // to read
  virtual Result<std::unique_ptr<File>> create_s3(const std::string& path) = 0;  // see s3_fs.h
  virtual Result<FileInfo> info_s3(const std::string& path) = 0;
  virtual Result<std::vector<std::string>> list_s3(const std::string& directory) = 0;
  virtual Status remove_s3(const std::string& path) = 0;
  Status try_sync_directory(const std::string& path) final;

  Fs& others_;
};

}  // namespace ndtrain::ndp
