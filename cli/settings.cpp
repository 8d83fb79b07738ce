#include "cli/settings.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "cli/suggest.h"
#include "framework/core/fs.h"
#include "framework/core/json_input.h"

namespace ndtrain::cli {
namespace {

constexpr const char* kFile = "ndtrain.toml";
constexpr std::string_view kPrefix = "NDTRAIN_";
// Those that no flag is called after.
constexpr const char* kOwnVariables[] = {"NDTRAIN_BACKEND_PATH", "NDTRAIN_CACHE", "NDTRAIN_TOKEN"};

using Names = std::vector<std::string>;

std::string meant(const std::string& word, const Names& names) {
  const std::string near = nearest(word, names);
  return near.empty() ? "" : "; did you mean '" + near + "'?";
}

[[noreturn]] void unknown(const toml::node& node, const std::string& what) {
  throw UsageError(std::string(kFile) + " line " + std::to_string(node.source().begin.line) + ": " +
                   what);
}

void check_key(const std::string& key, const toml::node& node, const Names& flags,
               const std::string& complaint) {
  if (std::ranges::find(flags, key) != flags.end()) return;
  unknown(node, complaint + key + "'" + meant(key, flags));
}

void check_file(const toml::table& file, const std::map<std::string, Names>& flags_of,
                const Names& all) {
  Names verbs;
  for (const auto& [verb, flags] : flags_of) verbs.push_back(verb);
  for (const auto& [key, node] : file) {
    const std::string name(key.str());
    if (!node.is_table()) {
      check_key(name, node, all, "no verb has an option '");
      continue;
    }
    const auto verb = flags_of.find(name);
    if (verb == flags_of.end())
      unknown(node, "there is no verb '" + name + "'" + meant(name, verbs));
    for (const auto& [inner, value] : *node.as_table()) {
      check_key(std::string(inner.str()), value, verb->second,
                "ndtrain " + name + " has no option '");
    }
  }
}

void check_environment(const Names& variables, const Names& flags) {
  Names known(std::begin(kOwnVariables), std::end(kOwnVariables));
  for (const std::string& flag : flags) known.push_back(environment_name(flag));
  for (const std::string& variable : variables) {
    if (std::ranges::find(known, variable) != known.end()) continue;
    throw UsageError(variable + " is in the environment, and no verb has such an option" +
                     meant(variable, known));
  }
}

Names variables_of_ours() {
  Names ours;
  for (char** v = environ; v && *v; ++v) {
    const std::string_view entry = *v;
    if (entry.starts_with(kPrefix)) ours.emplace_back(entry.substr(0, entry.find('=')));
  }
  return ours;
}

}  // namespace

toml::table settings_file() {
  if (!real_fs().exists(kFile)) return {};
  try {
    return ndp::parse_toml(real_fs().read(kFile, limits::kJsonText).or_throw());
  } catch (const Error& e) {
    throw UsageError(std::string(kFile) + ": " + e.what());
  }
}

std::string environment_name(const std::string& flag) {
  std::string name(kPrefix);
  for (const char c : flag) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

void check_settings(std::span<const Verb> verbs) {
  const toml::table file = settings_file();
  const Names variables = variables_of_ours();
  if (file.empty() && variables.empty()) return;
  std::map<std::string, Names> flags_of;
  std::set<std::string> every;
  for (const Verb& verb : verbs) {
    ArgsSpec spec(verb.name);
    verb.declare(spec);
    const Names& names = flags_of[std::string(verb.name)] = spec.names();
    every.insert(names.begin(), names.end());
  }
  const Names all(every.begin(), every.end());
  check_file(file, flags_of, all);
  check_environment(variables, all);
}

}  // namespace ndtrain::cli
