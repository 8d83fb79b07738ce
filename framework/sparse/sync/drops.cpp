#include "framework/sparse/sync/drops.h"

#include <charconv>
#include <ostream>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

// Each '*' as little as leaves a place for what follows it: the last part alone has to end the
// name.
bool fits(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  pattern.remove_prefix(star + 1);
  name.remove_prefix(star);
  while (true) {
    const std::string_view part = pattern.substr(0, pattern.find('*'));
    if (part.size() == pattern.size()) return name.ends_with(part);
    const size_t at = name.find(part);
    if (at == std::string_view::npos) return false;
    pattern.remove_prefix(part.size() + 1);
    name.remove_prefix(at + part.size());
  }
}

}  // namespace

std::optional<std::pair<std::string, double>> named_drop(std::string_view text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0) return std::nullopt;
  double drop = -1;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + equals + 1, end, drop);
  if (error != std::errc() || stop != end || !(drop >= 0 && drop < 1)) return std::nullopt;
  return std::pair(std::string(text.substr(0, equals)), drop);
}

std::vector<std::optional<double>> drops_of(std::span<const ParameterSlot> slots,
                                            std::span<const std::pair<std::string, double>> drops) {
  std::vector<std::optional<double>> all(slots.size());
  for (const auto& [pattern, drop] : drops) {
    if (!(drop >= 0 && drop < 1)) {
      throw Error("drop of '", pattern, "' is ", drop, ": from 0 to below 1");
    }
    bool found = false;
    for (size_t s = 0; s < slots.size(); ++s) {
      if (!fits(pattern, slots[s].name)) continue;
      all[s] = drop;
      found = true;
    }
    if (found) continue;
    std::string known;
    for (const ParameterSlot& slot : slots) known += (known.empty() ? "" : ", ") + slot.name;
    throw Error("drop of '", pattern, "': no parameter that is trained has such a name; there are ",
                known);
  }
  return all;
}

}  // namespace ndtrain
