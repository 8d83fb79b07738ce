#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace ndtrain {

// A bug in the caller or a model we cannot accept. The message says who, what and the offending
// values. Not for what goes wrong in a correct program (I/O, peers): see Status.
class Error : public std::runtime_error {
 public:
  template <typename... Parts>
  explicit Error(const Parts&... parts) : std::runtime_error(cat(parts...)) {}

 private:
  template <typename... Parts>
  static std::string cat(const Parts&... parts) {
    std::ostringstream os;
    (os << ... << parts);
    return os.str();
  }
};

}  // namespace ndtrain
