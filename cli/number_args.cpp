#include "cli/number_args.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>

#include "cli/args.h"

namespace ndtrain::cli {

int64_t integer_in(const Args& args, const std::string& flag, int64_t least, int64_t most) {
  const int64_t n = args.integer(flag);
  if (n < least || n > most) {
    throw UsageError("--" + flag + " " + args.text(flag) + ": " + std::to_string(least) + " to " +
                     std::to_string(most));
  }
  return n;
}

int64_t parse_duration(const std::string& flag, const std::string& text) {
  int64_t n = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, n);
  const std::string unit(stop, end);
  const int64_t seconds = unit == "h" ? 3600 : unit == "d" ? 86400 : unit == "w" ? 604800 : 0;
  if (error != std::errc() || n < 1 || n > 100'000 || seconds == 0) {
    throw UsageError("--" + flag + " " + text +
                     ": a number of hours, days or weeks, as 12h, 90d or 4w");
  }
  return n * seconds;
}

double parse_bandwidth(const std::string& flag, const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  std::string unit(rest, end);
  std::erase(unit, ' ');
  for (const std::string_view suffix : {"/s", "ps", "bit", "b"}) {
    if (unit.ends_with(suffix)) unit.resize(unit.size() - suffix.size());
  }
  double factor = 1;
  if (!unit.empty()) {
    const size_t step = std::string("KMGT").find(
        static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0]))));
    if (step == std::string::npos || unit.size() > 1) number = 0;
    factor = std::pow(1000.0, static_cast<double>(step == std::string::npos ? 0 : step + 1));
  }
  if (error != std::errc() || !std::isfinite(number) || number <= 0) {
    throw UsageError("--" + flag + " " + text + ": bits per second, as 20M, 20Mbit or 1Gbit/s");
  }
  return number * factor / 8;
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

double parse_finite(const std::string& flag, const std::string& text) {
  double v = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || rest != text.data() + text.size() || !std::isfinite(v)) {
    throw UsageError("--" + flag + " " + text + ": not a number");
  }
  return v;
}

double parse_positive(const std::string& flag, const std::string& text) {
  double v = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || rest != text.data() + text.size() || !(v > 0) || !std::isfinite(v)) {
    throw UsageError("--" + flag + " " + text + ": not a number above 0");
  }
  return v;
}

std::vector<int> parse_counts(const std::string& flag, const std::string& text, int most) {
  std::vector<int> counts;
  const auto whole = [&](const std::string& t) {
    int n = 0;
    const auto [rest, error] = std::from_chars(t.data(), t.data() + t.size(), n);
    if (error != std::errc() || rest != t.data() + t.size() || n < 1 || n > most) {
      throw UsageError("--" + flag + " " + text + ": whole numbers from 1 to " +
                       std::to_string(most) + ", as 2, 1,2,4 or 1-8");
    }
    return n;
  };
  for (const std::string& part : parts_of(text)) {
    const size_t dash = part.find('-');
    const int first = whole(part.substr(0, dash));
    const int last = dash == std::string::npos ? first : whole(part.substr(dash + 1));
    for (int n = first; n <= last; ++n) counts.push_back(n);
    if (last < first) throw UsageError("--" + flag + " " + text + ": from more to less");
  }
  return counts;
}

}  // namespace ndtrain::cli
