// The program, run in a directory of the test's own.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cli/demo_photos.h"
#include "framework/core/publish.h"
#include "ndp/photos/encode.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::testing_cli {
using namespace ndp;

struct Outcome {
  int code = -1;
  std::string out, err;
};

class ProgramTest : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return root_.at(name); }

  // Starts the program in the test's directory, its output into files there (and what is for
  // stderr to a terminal, if one is given); a file `in` is its input.
  pid_t start(const std::vector<std::string>& words, int terminal = -1) const;

  Outcome run(const std::vector<std::string>& words) const { return end_of(start(words)); }

  // The same beside others: its output goes into NAME.out and NAME.err.
  pid_t start_as(const std::string& name, const std::vector<std::string>& words) const;
  std::string said_by(const std::string& name) const {
    return real_fs().read(at(name + ".err")).or_throw();
  }
  // Waits for it.
  Outcome end_of(pid_t child, const std::string& name = "") const {
    int status = 0;
    waitpid(child, &status, 0);
    const std::string prefix = name.empty() ? "" : name + ".";
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            real_fs().read(at(prefix + "out")).or_throw(),
            real_fs().read(at(prefix + "err")).or_throw()};
  }

  void draw_photos(int n) const {
    for (int i = 0; i < n; ++i) {
      const std::string folder = at("photos/c" + std::to_string(i % 2));
      std::filesystem::create_directories(folder);
      const Image photo = cli::draw_demo_photo(i % 2, cli::Look::kDay, static_cast<uint64_t>(i));
      publish(real_fs(), folder + "/" + std::to_string(i) + ".jpg", encode_jpeg(photo)).or_throw();
    }
  }

  support::TemporaryDirectory root_;
};

}  // namespace ndtrain::testing_cli
