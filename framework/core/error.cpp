#include "framework/core/error.h"

#include <sstream>

namespace ndtrain {

void Error::append_streamed(std::string& text, Write write, const void* part) {
  std::ostringstream os;
  write(os, part);
  text += os.str();
}

}  // namespace ndtrain
