// Tuning files that say what a test wants: changed as only what writes them can.
#pragma once

#include <functional>
#include <string>

#include "backends/plugin/tuning_file.h"

namespace ndtrain::support {

inline void change_tuning(
    const std::string& path,
    const std::function<void(const std::string& key, plugin::TunedChoice& choice)>& change) {
  plugin::TunedChoices choices = plugin::read_tuning_file(path);
  for (auto& [key, choice] : choices) change(key, choice);
  plugin::add_to_tuning_file(path, choices);
}

}  // namespace ndtrain::support
