// A file system that counts what is written to it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/fs.h"

namespace ndtrain::sim {

class CountingFs final : public Fs {
 public:
  explicit CountingFs(Fs& disk) : disk_(disk) {}

  uint64_t files_written = 0, bytes_written = 0;

  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override {
    Result<std::unique_ptr<File>> file = disk_.open(path, mode);
    if (!file.ok()) return file;
    files_written += mode == Mode::kRead ? 0 : 1;
    return std::unique_ptr<File>(std::make_unique<Counted>(*this, std::move(*file)));
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

 private:
  class Counted final : public File {
   public:
    Counted(CountingFs& fs, std::unique_ptr<File> file) : fs_(fs), file_(std::move(file)) {}

    Result<size_t> read_at(int64_t offset, std::span<std::byte> to) override {
      return file_->read_at(offset, to);
    }
    Status append(std::span<const std::byte> bytes) override {
      fs_.bytes_written += bytes.size();
      return file_->append(bytes);
    }
    Status truncate(int64_t size) override { return file_->truncate(size); }
    Result<int64_t> size() override { return file_->size(); }
    Status lock() override { return file_->lock(); }

   private:
    Status try_sync() override {
      file_->sync();
      return {};
    }

    CountingFs& fs_;
    const std::unique_ptr<File> file_;
  };

  Status try_sync_directory(const std::string& path) override {
    disk_.sync_directory(path);
    return {};
  }

  Fs& disk_;
};

}  // namespace ndtrain::sim
