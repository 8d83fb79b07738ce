#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "framework/core/fs.h"

namespace ndtrain::testing {

// A file that says of its size what a test says.
class SizedFile final : public File {
 public:
  SizedFile(std::unique_ptr<File> file, int64_t size) : file_(std::move(file)), size_(size) {}
  Result<size_t> read_at(int64_t offset, std::span<std::byte> to) override {
    return file_->read_at(offset, to);
  }
  Status append(std::span<const std::byte> bytes) override { return file_->append(bytes); }
  Status truncate(int64_t size) override { return file_->truncate(size); }
  Result<int64_t> size() override { return size_; }

 private:
  Status try_sync() override { return file_->sync(), Status(); }

  const std::unique_ptr<File> file_;
  const int64_t size_;
};

// Another Fs in which some paths cannot be listed, opened or asked about, or say another size;
// opens are counted.
class BrokenFs final : public Fs {
 public:
  explicit BrokenFs(Fs& fs) : fs_(fs) {}

  std::set<std::string> broken;
  std::map<std::string, int64_t> sizes;
  int opened = 0;  // single-threaded tests only

  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override {
    ++opened;
    if (broken.contains(path)) return refusal(path);
    Result<std::unique_ptr<File>> file = fs_.open(path, mode);
    const auto size = sizes.find(path);
    if (!file.ok() || size == sizes.end()) return file;
    return std::unique_ptr<File>(std::make_unique<SizedFile>(std::move(*file), size->second));
  }
  Result<FileInfo> info(const std::string& path) override { return fs_.info(path); }
  Result<std::vector<std::string>> list(const std::string& path) override {
    if (broken.contains(path)) return refusal(path);
    return fs_.list(path);
  }
  Status make_directories(const std::string& path) override { return fs_.make_directories(path); }
  Status rename(const std::string& from, const std::string& to) override {
    return fs_.rename(from, to);
  }
  Status remove(const std::string& path) override { return fs_.remove(path); }
  Result<Space> space(const std::string& path) override { return fs_.space(path); }

 private:
  Status try_sync_directory(const std::string& path) override {
    return fs_.sync_directory(path), Status();
  }
  static Status refusal(const std::string& path) {
    return {Code::kIo, path + ": permission denied"};
  }

  Fs& fs_;
};

}  // namespace ndtrain::testing
