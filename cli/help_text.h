// What --help says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/verb.h"

namespace ndtrain::cli {

// All verbs under their headings, and what holds for each of them.
std::string overview();

// The verbs of two words whose first this is; "" where there are none.
std::string family_overview(std::string_view first_word);

// Of a verb: usage, arguments, options under their headings, and examples.
std::string help_text(const Verb& verb);

// Of its flags, in the order in which --help shows them: those without one first, then in the order
// of their first flags, and what all verbs have last.
std::vector<std::string> headings_of(const ArgsSpec& spec);

// The defaults' part of a flag's help: " (default: 15)", or "".
std::string default_text(const Flag& flag);

// What there is outside of the command line, and what exit codes mean.
std::string_view settings_text();

}  // namespace ndtrain::cli
