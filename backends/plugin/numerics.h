// The text in a plugin's table that names what decides the bits of a result. Choices made against
// the fixed rule, by any device of the process, add their digest to it.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>

namespace ndtrain::plugin {

using Choices = std::map<std::string, std::string>;  // by what was to choose

class Numerics {
 public:
  explicit Numerics(std::string fixed) : fixed_(std::move(fixed)) {}

  // The text with all choices added so far and these. Thread-safe; what it gives out stays readable
  // for ever.
  const char* with(const Choices& unruly);

 private:
  const std::string fixed_;
  std::mutex mutex_;
  Choices all_;
  std::set<std::string> given_;
};

}  // namespace ndtrain::plugin
