#include "framework/sparse/control/convergence_profile.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <ostream>
#include <set>

#include "framework/core/error.h"
#include "framework/core/text.h"

namespace ndtrain {
namespace {

using Profile = ConvergenceProfile;

constexpr std::string_view kFirstLine = "ndtrain-convergence-1";
constexpr double kMostBandwidth = 1000, kMostProfiledDrop = 0.9999;

std::string_view without_spaces(std::string_view s) {
  constexpr std::string_view kSpaces = " \t\r";
  const size_t first = s.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(kSpaces) - first + 1);
}

// Up to the first space, which is taken off `rest` with those that follow.
std::string_view next_word(std::string_view& rest) {
  const size_t end = std::min(rest.find_first_of(" \t"), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest = without_spaces(rest.substr(end));
  return word;
}

// Not quoted(): of a std::string that would be the one of <iomanip>.
std::string in_quotes(std::string_view s) { return '"' + printable(s, 60) + '"'; }

template <typename Number>
Number number(std::string_view field, std::string_view word) {
  if (word.empty()) throw Error(field, " is missing");
  Number value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc() && end == word.data() + word.size()) return value;
  throw Error(field, " is ", in_quotes(word), ", not a",
              std::is_integral_v<Number> ? " whole number" : " number");
}

void end_of(std::string_view field, std::string_view rest) {
  if (!rest.empty()) throw Error(field, " is followed by ", in_quotes(rest));
}

Profile::Over over(std::string_view word) {
  if (word == "bandwidth") return Profile::Over::kBandwidth;
  if (word == "drop") return Profile::Over::kDrop;
  throw Error("over is ", in_quotes(word), ", not bandwidth or drop");
}

Profile::Point point(std::string_view& rest) {
  Profile::Point p;
  p.batch = number<double>("the batch of a point", next_word(rest));
  p.second = number<double>("the bandwidth or drop of a point", next_word(rest));
  p.penalty = number<double>("the penalty of a point", next_word(rest));
  return p;
}

void read_field(std::string_view field, std::string_view rest, Profile& to) {
  if (field == "model") {
    if (rest.empty()) throw Error("model is missing");
    to.model = rest;
    return;
  }
  if (field == "over") {
    to.over = over(next_word(rest));
  } else if (field == "reference_batch") {
    to.reference_batch = number<int64_t>(field, next_word(rest));
  } else if (field == "reference_drop") {
    to.reference_drop = number<double>(field, next_word(rest));
  } else if (field == "largest_batch") {
    to.largest_batch = number<int64_t>(field, next_word(rest));
  } else if (field == "point") {
    to.points.push_back(point(rest));
  } else {
    throw Error("there is no field ", in_quotes(field));
  }
  end_of(field, rest);
}

// Of one line; `seen` has the fields of those before it.
void read_line(std::string_view line, std::set<std::string, std::less<>>& seen, Profile& to) {
  line = without_spaces(line);
  if (line.empty() || line.starts_with('#')) return;
  if (seen.empty()) {
    if (line != kFirstLine) {
      throw Error("begins with ", in_quotes(line), ", not with ", in_quotes(kFirstLine));
    }
    seen.emplace(line);
    return;
  }
  const std::string_view field = next_word(line);
  if (!seen.emplace(field).second && field != "point") throw Error("another ", in_quotes(field));
  read_field(field, line, to);
}

void check_point(const Profile::Point& p, Profile::Over over, size_t i) {
  if (!(p.batch > 0 && p.batch <= 1)) {
    throw Error("the batch of point ", i + 1, " is ", p.batch,
                ", not above 0 and at most 1, the largest");
  }
  if (over == Profile::Over::kBandwidth && !(p.second > 0 && p.second <= kMostBandwidth)) {
    throw Error("the bandwidth of point ", i + 1, " is ", p.second, ", not above 0 and at most ",
                kMostBandwidth, " of what the reference needs");
  }
  if (over == Profile::Over::kDrop && !(p.second >= 0 && p.second <= kMostProfiledDrop)) {
    throw Error("the drop of point ", i + 1, " is ", p.second, ", not from 0 to ",
                kMostProfiledDrop);
  }
  if (!std::isfinite(p.penalty)) throw Error("the penalty of point ", i + 1, " is ", p.penalty);
}

}  // namespace

void validate(const ConvergenceProfile& profile) {
  if (profile.model.empty()) throw Error("model is missing");
  if (!is_plain(profile.model) || without_spaces(profile.model) != profile.model) {
    throw Error("model is ", in_quotes(profile.model), ", not plain text");
  }
  if (profile.largest_batch < 1) throw Error("largest_batch is ", profile.largest_batch);
  if (profile.reference_batch < 1 || profile.reference_batch > profile.largest_batch) {
    throw Error("reference_batch is ", profile.reference_batch, ", not from 1 to ",
                profile.largest_batch);
  }
  if (!(profile.reference_drop >= 0 && profile.reference_drop <= kMostProfiledDrop)) {
    throw Error("reference_drop is ", profile.reference_drop, ", not from 0 to ",
                kMostProfiledDrop);
  }
  if (profile.points.empty() || std::ssize(profile.points) > limits::kConvergencePoints) {
    throw Error("there are ", profile.points.size(), " points, not 1 to ",
                limits::kConvergencePoints);
  }
  for (size_t i = 0; i < profile.points.size(); ++i) {
    check_point(profile.points[i], profile.over, i);
  }
}

std::string convergence_profile_text(const ConvergenceProfile& profile) {
  validate(profile);
  std::string text = fmt::format(
      "{}\nmodel {}\nover {}\nreference_batch {}\nreference_drop {}\nlargest_batch {}\n",
      kFirstLine, profile.model, profile.over == Profile::Over::kDrop ? "drop" : "bandwidth",
      profile.reference_batch, profile.reference_drop, profile.largest_batch);
  text += "# batch, " + std::string(profile.over == Profile::Over::kDrop ? "drop" : "bandwidth") +
          ", penalty\n";
  for (const Profile::Point& p : profile.points) {
    text += fmt::format("point {} {} {}\n", p.batch, p.second, p.penalty);
  }
  return text;
}

ConvergenceProfile parse_convergence_profile(std::string_view text, const std::string& file) {
  if (std::ssize(text) > limits::kConvergenceText) {
    throw Error(file, ": ", text.size(), " bytes, at most ", limits::kConvergenceText,
                " are a convergence profile");
  }
  Profile profile;
  std::set<std::string, std::less<>> seen;
  for (int line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    try {
      read_line(text.substr(0, end), seen, profile);
    } catch (const Error& e) {
      throw Error(file, ", line ", line, ": ", e.what());
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (seen.empty()) throw Error(file, ": is empty, it begins with ", in_quotes(kFirstLine));
  for (const std::string_view field :
       {"model", "over", "reference_batch", "reference_drop", "largest_batch", "point"}) {
    if (!seen.contains(field)) throw Error(file, ": ", field, " is missing");
  }
  try {
    validate(profile);
  } catch (const Error& e) {
    throw Error(file, ": ", e.what());
  }
  return profile;
}

}  // namespace ndtrain
