// The measured choices of algorithm of one device: read from a tuning file when it is opened, and
// final from then on; or, on a device that is for tuning, measured and added to the file. A choice
// holds only against the rule that it was measured against: another rule is another program.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backends/plugin/tuning_file.h"
#include "framework/runtime/backend_abi.h"

namespace ndtrain::plugin {

class Tuning {
 public:
  struct Owner {
    std::string plugin, chip, library;  // whose lines are used
    void (*log)(int32_t level, const char* message);
  };
  struct Measured {
    std::string choice;
    double chosen_seconds = 0, rule_seconds = 0;  // 0: it could not be measured
  };
  using Measure = std::function<std::optional<Measured>()>;  // none: nothing could be

  // Null where no file is named or the device is deterministic. Logs a warning when no line is for
  // the owner. Throws std::invalid_argument where the file is not there or not sound, or, for
  // tuning, cannot be written.
  static std::shared_ptr<Tuning> open(const ndt_options& options, const Owner& owner);

  // What to take for the layer, which by the rule takes `rule`. Measures on a device that is for
  // tuning only. Thread-safe: one measures.
  std::string choose(const std::string& layer, const std::string& rule, const Measure& measure);

  // Of the choices against the rule as they were when the device was opened, for its numerics:
  // " tuned-9f86d081884c7d65", or nothing where there are none.
  std::string digest() const;
  std::string description() const;  // for people: "8 layers tuned, 2 of them against the rule"

 private:
  Tuning(const ndt_options& options, const Owner& owner);
  void tell(const std::string& layer, const std::string& rule, const Measured& m) const;

  const std::string path_, here_;
  void (*const on_choice_)(void*, const ndt_choice*);
  void* const on_choice_arg_;
  std::mutex mutex_;      // of a device that is for tuning
  TunedChoices choices_;  // by layer
};

}  // namespace ndtrain::plugin
