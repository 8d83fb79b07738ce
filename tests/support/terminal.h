// A shell command in a terminal of its own, for tests of what a person sees there.
#pragma once

#include <string>
#include <vector>

namespace ndtrain::support {

struct Shown {
  int code = -1;
  std::string bytes;  // all that was written, standard output and errors as they came
};

// Runs `command` by bash in `directory`, on a terminal `columns` wide; ends with it.
Shown run_in_terminal(const std::string& command, const std::string& directory, int columns);

// The lines that are left on the screen: what a carriage return lets be written over is gone.
std::vector<std::string> visible_lines(const std::string& bytes);

// The longest piece between two carriage returns or line ends, in characters, of those that a
// carriage return rewrites: one wider than the terminal would stay there as a line of its own.
size_t widest_rewritten(const std::string& bytes);

}  // namespace ndtrain::support
