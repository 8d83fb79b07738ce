#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "framework/core/error.h"

namespace ndtrain {

// What is wrong with a model, gathered so that one Error can name every offender at once.
class Problems {
 public:
  template <typename... Parts>
  void add(const Parts&... parts) {
    std::ostringstream os;
    (os << ... << parts);
    list_.push_back(os.str());
  }
  bool empty() const { return list_.empty(); }

  // Throws Error with all of them unless there are none.
  void throw_if_any(const std::string& who) const {
    if (list_.empty()) return;
    std::string text = who + ":";
    for (const std::string& p : list_) text += (list_.size() == 1 ? " " : "\n  ") + p;
    throw Error(text);
  }

 private:
  std::vector<std::string> list_;
};

}  // namespace ndtrain
