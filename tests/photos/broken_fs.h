#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "framework/core/fs.h"

namespace ndtrain::testing {

// Another Fs in which some paths cannot be listed, opened or asked about; opens are counted.
class BrokenFs final : public Fs {
 public:
  explicit BrokenFs(Fs& fs) : fs_(fs) {}

  std::set<std::string> broken;
  int opened = 0;  // single-threaded tests only

  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override {
    ++opened;
    if (broken.contains(path)) return refusal(path);
    return fs_.open(path, mode);
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
  Status sync_directory(const std::string& path) override { return fs_.sync_directory(path); }
  Result<Space> space(const std::string& path) override { return fs_.space(path); }

 private:
  static Status refusal(const std::string& path) {
    return {Code::kIo, path + ": permission denied"};
  }

  Fs& fs_;
};

}  // namespace ndtrain::testing
