// What a matrix of replays has finished, a JSON object on each line of a file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/json.h"

namespace ndtrain::cli {

// One user at a time.
class ReplayResults {
 public:
  // Makes `directory`, and takes the file in it for itself. A last line that is damaged, as a
  // program leaves it that is killed, is dropped with a word. Throws Error for any other that is,
  // and where somebody else has the file.
  ReplayResults(Fs& fs, const std::string& directory);

  // The schedule's result with the same settings, if there is one.
  std::optional<Json> find(const Json& settings, const std::string& schedule) const;
  void add(const Json& settings, const Json& result);  // durable on return

  const std::string& path() const { return path_; }

 private:
  void read(Fs& fs);

  const std::string path_;
  std::unique_ptr<File> file_;
  std::vector<Json> lines_;
};

}  // namespace ndtrain::cli
