#include "framework/comm/fingerprint.h"

#include "framework/core/text.h"

namespace ndtrain {
namespace {

constexpr size_t kMostText = 80;  // of a value that people are shown

std::string shown(const std::string& text) {
  return text.empty() ? "empty" : printable(text, kMostText);
}

}  // namespace

std::string first_difference(const Fingerprint& ours, const Fingerprint& theirs) {
  for (size_t i = 0; i < ours.size() || i < theirs.size(); ++i) {
    if (i >= theirs.size()) return shown(ours[i].first) + " is not said";
    if (i >= ours.size()) return shown(theirs[i].first) + " is said, which is not known here";
    const auto& [name, value] = ours[i];
    const auto& [their_name, their_value] = theirs[i];
    if (name != their_name) return shown(their_name) + " is said in place of " + shown(name);
    if (value != their_value) {
      return shown(name) + " is " + shown(their_value) + ", not " + shown(value);
    }
  }
  return "";
}

}  // namespace ndtrain
