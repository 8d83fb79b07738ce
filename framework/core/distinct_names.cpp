#include "framework/core/distinct_names.h"

#include <algorithm>
#include <map>
#include <set>

namespace ndtrain {

std::vector<Renamed> make_distinct(std::vector<std::string>& names) {
  std::set<std::string> taken(names.begin(), names.end());
  std::map<std::string, int64_t> seen;
  std::vector<Renamed> renamed;
  for (size_t i = 0; i < names.size(); ++i) {
    int64_t& number = seen[names[i]];
    if (++number == 1) continue;
    std::string to;
    do {
      to = names[i] + " (" + std::to_string(number) + ")";
    } while (!taken.insert(to).second && ++number > 0);
    renamed.push_back({i, names[i], to});
    names[i] = std::move(to);
  }
  return renamed;
}

std::string describe(std::span<const Renamed> renamed) {
  constexpr size_t kNamed = 8;
  if (renamed.empty()) return "";
  std::string text = "some class names occur more than once, so that ";
  for (size_t i = 0; i < std::min(renamed.size(), kNamed); ++i) {
    const std::string number = std::to_string(renamed[i].index);
    text += (i == 0 ? "class " : ", class ") + number + " is called '" + renamed[i].to + "'";
  }
  if (renamed.size() <= kNamed) return text;
  return text + ", and " + std::to_string(renamed.size() - kNamed) + " more likewise";
}

}  // namespace ndtrain
