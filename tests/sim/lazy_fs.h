// A disk whose driver says that it has synced and has not.
#pragma once

#include <memory>
#include <string>

#include "framework/core/fs.h"

namespace ndtrain::sim {

class LazyFs final : public Fs {
 public:
  // Syncs only what is asked for; both, and it is as good as `fs`. It must outlive this.
  LazyFs(Fs& fs, bool files, bool directories)
      : fs_(fs), files_(files), directories_(directories) {}

  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override {
    Result<std::unique_ptr<File>> file = fs_.open(path, mode);
    if (!file.ok() || files_) return file;
    return std::unique_ptr<File>(std::make_unique<LazyFile>(std::move(*file)));
  }
  Result<FileInfo> info(const std::string& path) override { return fs_.info(path); }
  Result<std::vector<std::string>> list(const std::string& directory) override {
    return fs_.list(directory);
  }
  Status make_directories(const std::string& path) override { return fs_.make_directories(path); }
  Status rename(const std::string& from, const std::string& to) override {
    return fs_.rename(from, to);
  }
  Status remove(const std::string& path) override { return fs_.remove(path); }
  Result<Space> space(const std::string& path) override { return fs_.space(path); }
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    return fs_.lock(path);
  }

 private:
  class LazyFile final : public File {
   public:
    explicit LazyFile(std::unique_ptr<File> file) : file_(std::move(file)) {}
    Result<size_t> read_at(int64_t offset, std::span<std::byte> to) override {
      return file_->read_at(offset, to);
    }
    Status append(std::span<const std::byte> bytes) override { return file_->append(bytes); }
    Status truncate(int64_t size) override { return file_->truncate(size); }
    Result<int64_t> size() override { return file_->size(); }
    Status lock() override { return file_->lock(); }

   private:
    Status try_sync() override { return {}; }

    std::unique_ptr<File> file_;
  };

  Status try_sync_directory(const std::string& path) override {
    if (directories_) fs_.sync_directory(path);
    return {};
  }

  Fs& fs_;
  bool files_, directories_;
};

}  // namespace ndtrain::sim
