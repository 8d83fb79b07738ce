// Measured choices of algorithm, kept in a small text file: a line per layer, chip and library.
// Choices made by measurement may change bits, so what differs from the fixed rule goes into the
// plugin's numerics.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace ndtrain::onednn {

class Tuning {
 public:
  // A file that is not there or not ours is begun anew.
  explicit Tuning(std::string path);

  // What the file says for `key`; else what `measure` answers, which is then kept. `rule` is the
  // answer without a file. A file that cannot be written is logged.
  std::string choose(const std::string& key, const std::string& rule,
                     const std::function<std::string()>& measure);

 private:
  void read();
  void write();

  const std::string path_;
  std::mutex mutex_;
  std::map<std::string, std::string> choices_;  // by "chip library layer"
  std::map<std::string, std::string> unruly_;   // of those asked for, the ones not by the rule
};

// "Intel(R) Xeon(R) Processor", with underscores for spaces.
std::string chip_name();

// Appends the digest of what was chosen against the rule, by any device of this process, to the
// numerics of the plugin's table. plugin.cpp.
void publish_choices(const std::map<std::string, std::string>& unruly);

}  // namespace ndtrain::onednn
