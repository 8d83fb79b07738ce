// Measured choices of algorithm, kept in a small text file: a line per layer, chip and library.
// Choices made by measurement may change bits, so what differs from the fixed rule goes into the
// plugin's numerics.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "backends/plugin/numerics.h"

namespace ndtrain::plugin {

class Tuning {
 public:
  struct Owner {
    std::string plugin;         // "onednn", in the heading of the file
    std::string chip, library;  // lines of others are kept and not used
    std::function<void(const std::string&)> log;
    std::function<void(const Choices& unruly)> publish;  // those asked for that are not by the rule
  };

  // A file that is not there or not of this plugin is begun anew.
  Tuning(std::string path, Owner owner);

  // What the file says for `key`; else what `measure` answers, which is then kept. `rule` is the
  // answer without a file. A file that cannot be written is logged. Thread-safe: one measures.
  std::string choose(const std::string& key, const std::string& rule,
                     const std::function<std::string()>& measure);

 private:
  void read();
  void write();

  const std::string path_;
  const Owner owner_;
  const std::string heading_, here_;
  std::mutex mutex_;
  Choices choices_;  // by "chip library layer"
  Choices unruly_;   // of those asked for, the ones not by the rule
};

}  // namespace ndtrain::plugin
