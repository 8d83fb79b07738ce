#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "framework/core/error.h"
#include "framework/core/fs.h"

namespace ndtrain::support {

// An empty directory of its own on the real file system, removed with all that is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_(join(::testing::TempDir(), "ndt_XXXXXX")) {
    if (::mkdtemp(path_.data()) == nullptr) {
      throw Error("TemporaryDirectory: cannot make ", path_, "; is TEST_TMPDIR writable?");
    }
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string at(std::string_view name) const { return join(path_, name); }

 private:
  std::string path_;
};

}  // namespace ndtrain::support
