#pragma once

#include <span>
#include <string>
#include <vector>

namespace ndtrain {

struct Renamed {
  size_t index;  // of the list, from 0
  std::string from, to;
};

// Tells equal names apart: the second "crane" becomes "crane (2)", the third "crane (3)", each the
// first of these that nothing is called. Returns what was renamed, in the order of the list.
std::vector<Renamed> make_distinct(std::vector<std::string>& names);

// "some class names occur more than once, so that class 517 is called 'crane (2)' and …", for
// people; "" when nothing was renamed.
std::string describe(std::span<const Renamed> renamed);

}  // namespace ndtrain
