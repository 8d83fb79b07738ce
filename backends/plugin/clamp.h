// The limits within which the steps behind a product hold its result (attribute `steps`; the
// grammar is framework/graph/elementwise_steps.h's), where they are no more than that.
#pragma once

#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

namespace ndtrain::plugin {

struct Clamp {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

// Infinite limits for no steps; none for steps of which a clamp is not all.
inline std::optional<Clamp> clamp_of(std::string_view steps) {
  constexpr std::string_view kClip = "Clip x0 ";
  if (steps.empty()) return Clamp{};
  if (steps == "Relu x0") return Clamp{.low = 0};
  if (!steps.starts_with(kClip)) return {};
  Clamp c;
  const char* const end = steps.data() + steps.size();
  const auto low = std::from_chars(steps.data() + kClip.size(), end, c.low);
  if (low.ec != std::errc{} || low.ptr == end || *low.ptr != ' ') return {};
  const auto high = std::from_chars(low.ptr + 1, end, c.high);
  if (high.ec != std::errc{} || high.ptr != end) return {};
  return c;
}

}  // namespace ndtrain::plugin
