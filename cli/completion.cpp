// Scripts that complete verbs, options and files, of the same tables as --help.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "cli/verb.h"

namespace ndtrain::cli {
namespace {

constexpr std::array<std::string_view, 10> kPaths = {"FILE", "DIR",   "MODEL", "RUN",    "PLAN",
                                                     "DATA", "STATE", "PHOTO", "PHOTOS", "PROFILE"};

bool is_path(std::string_view value) { return std::ranges::count(kPaths, value) > 0; }

ArgsSpec& declared(ArgsSpec& spec, const Verb& verb) {
  verb.declare(spec);
  return spec;
}

std::string first_word(const Verb& v) { return std::string(v.name.substr(0, v.name.find(' '))); }

std::string second_word(const Verb& v) {
  const size_t blank = v.name.find(' ');
  return blank == std::string_view::npos ? "" : std::string(v.name.substr(blank + 1));
}

// Each once, in the order of the verbs.
std::vector<std::string> first_words() {
  std::vector<std::string> words;
  for (const Verb& v : verbs()) {
    if (std::ranges::count(words, first_word(v)) == 0) words.push_back(first_word(v));
  }
  return words;
}

std::vector<const Verb*> family(const std::string& first) {
  std::vector<const Verb*> some;
  for (const Verb& v : verbs()) {
    if (first_word(v) == first && !second_word(v).empty()) some.push_back(&v);
  }
  return some;
}

bool takes_paths(const ArgsSpec& spec) {
  return std::ranges::any_of(spec.arguments(), [](const Positional& p) { return is_path(p.name); });
}

// Of a verb: its options; those of them that want a path, or another value.
std::string bash_case(const Verb& verb) {
  ArgsSpec spec(verb.name);
  std::string options, paths, values;
  for (const Flag& f : declared(spec, verb).flags()) {
    std::string names = "--" + f.name;
    if (!f.letter.empty()) names += " -" + f.letter;
    options += (options.empty() ? "" : " ") + names;
    if (!f.value.empty()) (is_path(f.value) ? paths : values) += " " + names;
  }
  return fmt::format("    '{}') options='{}' paths='{} ' values='{} ' files={} ;;\n", verb.name,
                     options, paths, values, takes_paths(spec) ? 1 : 0);
}

std::string bash_script() {
  std::string families, cases, firsts;
  for (const std::string& first : first_words()) {
    firsts += (firsts.empty() ? "" : " ") + first;
    std::string seconds;
    for (const Verb* v : family(first)) seconds += (seconds.empty() ? "" : " ") + second_word(*v);
    if (!seconds.empty()) families += fmt::format("    {}) seconds='{}' ;;\n", first, seconds);
  }
  for (const Verb& v : verbs()) cases += bash_case(v);
  return "# bash completion for ndtrain\n"
         "_ndtrain() {\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  local first=${COMP_WORDS[1]} second=${COMP_WORDS[2]-} seconds= verb at=2\n"
         "  local options= paths= values= files=0\n"
         "  COMPREPLY=()\n"
         "  if ((COMP_CWORD == 1)); then\n"
         "    COMPREPLY=($(compgen -W '" +
         firsts +
         " --help --version' -- \"$cur\"))\n"
         "    return\n"
         "  fi\n"
         "  [[ $first == help ]] && first=$second second=${COMP_WORDS[3]-} at=3\n"
         "  case $first in\n" +
         families +
         "  esac\n"
         "  if ((at == 3 && COMP_CWORD == 2)); then\n"
         "    COMPREPLY=($(compgen -W '" +
         firsts +
         "' -- \"$cur\"))\n"
         "    return\n"
         "  fi\n"
         "  if [[ $seconds ]] && ((COMP_CWORD == at)) && [[ $cur != -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$seconds\" -- \"$cur\"))\n"
         "    [[ ${#COMPREPLY[@]} -gt 0 ]] && return\n"
         "  fi\n"
         "  ((at == 3)) && return\n"
         "  verb=$first\n"
         "  [[ \" $seconds \" == *\" $second \"* ]] && verb=\"$first $second\"\n"
         "  case $verb in\n" +
         cases +
         "  esac\n"
         "  if [[ $cur == = ]]; then cur=; elif [[ $before == = ]]; then "
         "before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
         "  if [[ $paths == *\" $before \"* ]]; then\n"
         "    files=1\n"
         "  elif [[ $values == *\" $before \"* ]]; then\n"
         "    return\n"
         "  elif [[ $cur == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
         "    return\n"
         "  fi\n"
         "  ((files)) || return\n"
         "  compopt -o filenames 2> /dev/null\n"
         "  local IFS=$'\\n'\n"
         "  COMPREPLY=($(compgen -f -- \"$cur\"))\n"
         "}\n"
         "complete -F _ndtrain ndtrain\n";
}

// Within '…[here]:…'.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out;
}

std::string zsh_option(const Flag& f) {
  const std::string value =
      f.value.empty() ? "" : ":" + zsh_text(f.value) + ":" + (is_path(f.value) ? "_files" : "");
  const std::string rest = "[" + zsh_text(f.help) + "]" + value + "'";
  if (f.letter.empty()) return "'*--" + f.name + (f.value.empty() ? "" : "=") + rest;
  return "'*'{-" + f.letter + ",--" + f.name + (f.value.empty() ? "" : "=") + "}'" + rest;
}

std::string zsh_case(const Verb& verb) {
  ArgsSpec spec(verb.name);
  std::string out = fmt::format("    '{}')\n      _arguments -s", verb.name);
  for (const Flag& f : declared(spec, verb).flags()) out += " \\\n        " + zsh_option(f);
  if (takes_paths(spec)) out += " \\\n        '*:file:_files'";
  return out + "\n      ;;\n";
}

std::string zsh_script() {
  std::string firsts, families, cases;
  for (const std::string& first : first_words()) {
    std::string what, seconds;
    for (const Verb* v : family(first)) {
      what += (what.empty() ? "" : ", ") + second_word(*v);
      seconds += fmt::format("\n        '{}:{}'", second_word(*v), zsh_text(v->summary));
    }
    for (const Verb& v : verbs()) {
      if (v.name == first) what = std::string(v.summary);
    }
    firsts += fmt::format("\n      '{}:{}'", first, zsh_text(what));
    if (!seconds.empty()) families += fmt::format("    {}) seconds=({}) ;;\n", first, seconds);
  }
  for (const Verb& v : verbs()) cases += zsh_case(v);
  return "#compdef ndtrain\n"
         "_ndtrain() {\n"
         "  local -a firsts seconds\n"
         "  local verb=${words[2]} is_help=0\n"
         "  firsts=(" +
         firsts +
         ")\n"
         "  if (( CURRENT > 2 )) && [[ $verb == help ]]; then\n"
         "    is_help=1\n"
         "    shift words\n"
         "    (( CURRENT-- ))\n"
         "    verb=${words[2]}\n"
         "  fi\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe verb firsts\n"
         "    return\n"
         "  fi\n"
         "  case $verb in\n" +
         families +
         "  esac\n"
         "  if (( CURRENT == 3 && $#seconds )) && [[ ${words[3]} != -* ]]; then\n"
         "    _describe verb seconds && return\n"
         "  fi\n"
         "  (( is_help )) && return\n"
         "  if [[ -n ${(M)seconds:#${words[3]}:*} ]]; then\n"
         "    verb=\"$verb ${words[3]}\"\n"
         "    shift words\n"
         "    (( CURRENT-- ))\n"
         "  fi\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  case $verb in\n" +
         cases +
         "  esac\n"
         "}\n"
         "if [[ ${funcstack[1]-} == _ndtrain ]]; then _ndtrain \"$@\"; else compdef _ndtrain "
         "ndtrain; fi\n";
}

}  // namespace

void declare_completion(ArgsSpec& args) { args.positional("SHELL", "bash or zsh"); }

int run_completion(Context& context, const Args& args) {
  const std::string shell = args.required("SHELL");
  if (shell != "bash" && shell != "zsh") {
    throw UsageError("completion for " + shell + ": there is bash and zsh");
  }
  if (context.json()) throw UsageError("a script for a shell has no form as --json");
  context.print(shell == "bash" ? bash_script() : zsh_script());
  return kOk;
}

}  // namespace ndtrain::cli
