#include <string>
#include <vector>

#include "cli/context.h"
#include "cli/help_text.h"
#include "cli/unknown_verb.h"
#include "framework/core/json.h"

namespace ndtrain::cli {
namespace {

Json options_json(const ArgsSpec& spec) {
  Json options = Json::array();
  for (const Flag& f : spec.flags()) {
    Json o = {{"name", f.name}, {"help", f.help}, {"heading", f.heading}};
    if (!f.letter.empty()) o["letter"] = f.letter;
    if (!f.value.empty()) o["value"] = f.value;
    if (!default_text(f).empty()) o["default"] = f.fallback;
    options.push_back(std::move(o));
  }
  return options;
}

Json verb_json(const Verb& verb) {
  ArgsSpec spec(verb.name);
  verb.declare(spec);
  Json arguments = Json::array();
  for (const Positional& p : spec.arguments()) {
    arguments.push_back({{"name", p.name}, {"help", p.help}});
  }
  return {{"verb", verb.name},         {"summary", verb.summary},
          {"usage", verb.usage},       {"arguments", std::move(arguments)},
          {"examples", verb.examples}, {"options", options_json(spec)}};
}

// All, or those of one first word.
Json verbs_json(const std::string& first_word) {
  Json all = Json::array();
  for (const VerbSection& section : verb_sections()) {
    for (const Verb& v : section.verbs) {
      if (!first_word.empty() && !v.name.starts_with(first_word + " ")) continue;
      all.push_back({{"verb", v.name}, {"summary", v.summary}, {"heading", section.heading}});
    }
  }
  return {{"verbs", std::move(all)}};
}

}  // namespace

void declare_help(ArgsSpec& args) {
  args.positionals("VERB", "its words; none: all verbs are listed");
}

int run_help(Context& context, const Args& args) {
  const std::vector<std::string> words = args.list("VERB");
  size_t taken = 0;
  const Verb* verb = find_verb(words, taken);
  const std::string family = words.size() == 1 ? family_overview(words[0]) : "";
  if (words.empty()) {
    context.print(verbs_json(""), overview());
  } else if (verb && taken == words.size()) {
    context.print(verb_json(*verb), help_text(*verb));
  } else if (!family.empty()) {
    context.print(verbs_json(words[0]), family);
  } else {
    unknown_verb(words);
  }
  return kOk;
}

}  // namespace ndtrain::cli
