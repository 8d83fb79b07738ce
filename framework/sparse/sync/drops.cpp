#include "framework/sparse/sync/drops.h"

#include "framework/core/error.h"
#include "framework/train/name_pattern.h"

namespace ndtrain {
namespace {

bool is_drop(double number) { return number >= 0 && number < 1; }

}  // namespace

std::optional<std::pair<std::string, double>> named_drop(std::string_view text) {
  std::optional<std::pair<std::string, double>> named = numbered_pattern(text);
  if (named && !is_drop(named->second)) return std::nullopt;
  return named;
}

std::vector<std::optional<double>> drops_of(std::span<const ParameterSlot> slots,
                                            std::span<const std::pair<std::string, double>> drops) {
  for (const auto& [pattern, drop] : drops) {
    if (!is_drop(drop)) throw Error("drop of '", pattern, "' is ", drop, ": from 0 to below 1");
  }
  std::vector<std::string> names;
  for (const ParameterSlot& slot : slots) names.push_back(slot.name);
  return numbers_of("drop", names, drops);
}

}  // namespace ndtrain
