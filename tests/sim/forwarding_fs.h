// A file system that is another one, for those that change a little of it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/fs.h"

namespace ndtrain::sim {

class ForwardingFs : public Fs {
 public:
  explicit ForwardingFs(Fs& disk) : disk_(disk) {}  // which outlives this

  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override {
    return disk_.open(path, mode);
  }
  Result<FileInfo> info(const std::string& path) override { return disk_.info(path); }
  Result<std::vector<std::string>> list(const std::string& directory) override {
    return disk_.list(directory);
  }
  Status make_directories(const std::string& path) override { return disk_.make_directories(path); }
  Status rename(const std::string& from, const std::string& to) override {
    return disk_.rename(from, to);
  }
  Status remove(const std::string& path) override { return disk_.remove(path); }
  Result<Space> space(const std::string& path) override { return disk_.space(path); }
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    return disk_.lock(path);
  }

 protected:
  Status try_sync_directory(const std::string& path) override {
    disk_.sync_directory(path);
    return {};
  }

 private:
  Fs& disk_;
};

class ForwardingFile : public File {
 public:
  explicit ForwardingFile(std::unique_ptr<File> file) : file_(std::move(file)) {}

  Result<size_t> read_at(int64_t offset, std::span<std::byte> to) override {
    return file_->read_at(offset, to);
  }
  Status append(std::span<const std::byte> bytes) override { return file_->append(bytes); }
  Status truncate(int64_t size) override { return file_->truncate(size); }
  Result<int64_t> size() override { return file_->size(); }
  Status lock() override { return file_->lock(); }

 protected:
  Status try_sync() override {
    file_->sync();
    return {};
  }

 private:
  const std::unique_ptr<File> file_;
};

}  // namespace ndtrain::sim
