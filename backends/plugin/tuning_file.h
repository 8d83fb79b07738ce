// The tuning file: measured choices of algorithm as text, of any number of plugins, chips and
// libraries, which keep to lines of their own:
//
//   ndtrain tuning 1
//   onednn Intel_Xeon oneDNN_2.6.3 conv3x3 64>64 56x56>56x56 choice=direct rule=winograd
//   end 1 9f86d081884c7d65
//
// The last line has how many there are between it and the first, and a digest of all before it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace ndtrain::plugin {

struct TunedChoice {
  std::string choice, rule;  // a word each; the rule's is what would be done without a file

  bool operator==(const TunedChoice&) const = default;
};
using TunedChoices = std::map<std::string, TunedChoice>;  // by "plugin chip library layer"

// Throws std::invalid_argument, saying what to do, where the file is not there, is no tuning file
// or was changed or cut since it was written.
TunedChoices read_tuning_file(const std::string& path);

// Adds to what the file has, or replaces it there, or begins a file. It is replaced whole;
// processes that do so at once wait for each other, by a lock on `path`.lock. Throws
// std::invalid_argument.
void add_to_tuning_file(const std::string& path, const TunedChoices& more);

uint64_t digest_of(std::string_view text);
std::string text_of_digest(uint64_t digest);  // 16 hex digits

}  // namespace ndtrain::plugin
