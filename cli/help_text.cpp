#include "cli/help_text.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "cli/context.h"

namespace ndtrain::cli {
namespace {

constexpr size_t kWidth = 100, kIndent = 28;  // of a line; where a flag's help begins

std::string padded(std::string_view text, size_t width) {
  return std::string(text) + std::string(width > text.size() ? width - text.size() : 0, ' ');
}

std::string lines_of(std::span<const Verb> some) {
  size_t width = 0;
  for (const Verb& v : verbs()) width = std::max(width, v.name.size());
  std::string out;
  for (const Verb& v : some)
    out += "  " + padded(v.name, width + 2) + std::string(v.summary) + "\n";
  return out;
}

// In lines of kWidth, from kIndent on; the first begins where the cursor is.
std::string wrapped(const std::string& text) {
  std::istringstream words(text);
  std::string out, line;
  for (std::string word; words >> word;) {
    if (!line.empty() && kIndent + line.size() + 1 + word.size() > kWidth) {
      out += line + "\n" + std::string(kIndent, ' ');
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + line + "\n";
}

std::string option_text(const Flag& flag) {
  const std::string letter = flag.letter.empty() ? "    " : "-" + flag.letter + ", ";
  const std::string option =
      "  " + letter + "--" + flag.name + (flag.value.empty() ? "" : " " + flag.value);
  const bool apart = option.size() + 2 > kIndent;
  return (apart ? option + "\n" + std::string(kIndent, ' ') : padded(option, kIndent)) +
         wrapped(flag.help + default_text(flag));
}

std::string arguments_text(const ArgsSpec& spec) {
  size_t width = 0;
  for (const Positional& p : spec.arguments()) width = std::max(width, p.name.size());
  std::string out = spec.arguments().empty() ? "" : "\nArguments:\n";
  for (const Positional& p : spec.arguments()) {
    out += "  " + padded(p.name, width + 2) + p.help + "\n";
  }
  return out;
}

}  // namespace

std::vector<std::string> headings_of(const ArgsSpec& spec) {
  std::vector<std::string> headings;
  for (const Flag& flag : spec.flags()) {
    if (std::ranges::count(headings, flag.heading) == 0) headings.push_back(flag.heading);
  }
  // What all verbs have was declared first.
  std::rotate(headings.begin(), headings.begin() + 1, headings.end());
  std::stable_partition(headings.begin(), headings.end(),
                        [](const std::string& h) { return h.empty(); });
  return headings;
}

std::string default_text(const Flag& flag) {
  return flag.value.empty() || flag.fallback.empty() ? "" : " (default: " + flag.fallback + ")";
}

std::string_view settings_text() {
  return "Options are also read from ndtrain.toml in the working directory (epochs = 30; under\n"
         "[train] or [\"job submit\"] for one verb alone) and from the environment\n"
         "(NDTRAIN_EPOCHS=30). What no verb knows there is an error.\n\n"
         "Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 done, but something was left out, 4 "
         "interrupted\nand resumable, 5 an fsync failed, 6 another Tuner has the state.\n";
}

std::string overview() {
  std::string out = "ndtrain " NDT_VERSION
                    ": train and relabel where the photos live\n\nUsage: ndtrain VERB "
                    "[options]\n";
  std::string_view heading;
  for (const VerbSection& section : verb_sections()) {
    if (section.heading != heading) out += "\n" + std::string(section.heading) + ":\n";
    heading = section.heading;
    out += lines_of(section.verbs);
  }
  return out +
         "\nndtrain help VERB, or ndtrain VERB --help, shows a verb's options and examples.\n" +
         std::string(settings_text());
}

std::string family_overview(std::string_view first_word) {
  std::vector<Verb> family;
  const std::string first = std::string(first_word) + " ";
  for (const Verb& v : verbs()) {
    if (v.name.starts_with(first)) family.push_back(v);
  }
  if (family.empty()) return "";
  return "Usage: ndtrain " + first + "VERB [options]\n\n" + lines_of(family) + "\nndtrain help " +
         first + "VERB shows a verb's options and examples.\n";
}

std::string help_text(const Verb& verb) {
  ArgsSpec spec(verb.name);
  verb.declare(spec);
  const std::string name(verb.name);
  std::string out = "ndtrain " + name + ": " + std::string(verb.summary) + "\n\nUsage: ndtrain " +
                    name + (verb.usage.empty() ? "" : " ") + std::string(verb.usage) + "\n" +
                    arguments_text(spec);
  for (const std::string& heading : headings_of(spec)) {
    out += "\n" + (heading.empty() ? "Options" : heading) + ":\n";
    for (const Flag& flag : spec.flags()) {
      if (flag.heading == heading) out += option_text(flag);
    }
  }
  std::string others;  // whose first words are this verb's
  for (const Verb& v : verbs()) {
    if (v.name.starts_with(name + " ")) others += "  ndtrain " + std::string(v.name) + "\n";
  }
  return out + "\nExamples:\n" + std::string(verb.examples) +
         (others.empty() ? "" : "\nSee also:\n" + others);
}

}  // namespace ndtrain::cli
