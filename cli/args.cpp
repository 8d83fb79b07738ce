#include "cli/args.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cxxopts.hpp>
#include <sstream>

#include "cli/settings.h"
#include "cli/suggest.h"
#include "framework/core/fs.h"
#include "ndp/jobs/run_settings.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

std::string toml_text(const toml::node& node) {
  if (const auto s = node.value<std::string>(); node.is_string()) return *s;
  std::ostringstream out;
  node.visit([&](const auto& n) { out << n; });
  return out.str();
}

// Flags from ndtrain.toml as "--flag=value"; a table named after the verb goes over the top level.
std::vector<std::string> from_file(const std::string& verb, const std::vector<std::string>& names) {
  const toml::table file = settings_file();
  std::vector<std::string> words;
  const toml::table* own = file[verb].as_table();
  for (const std::string& name : names) {
    const toml::node* node = own && own->contains(name) ? own->get(name) : file.get(name);
    if (node && !node->is_table()) words.push_back("--" + name + "=" + toml_text(*node));
  }
  return words;
}

std::vector<std::string> from_environment(const std::vector<std::string>& names) {
  std::vector<std::string> words;
  for (const std::string& name : names) {
    if (const char* value = std::getenv(environment_name(name).c_str()); value && *value) {
      words.push_back("--" + name + "=" + value);
    }
  }
  return words;
}

// What the run that the last --config names was asked for.
Settings repeated(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  std::string run;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with("--config=")) run = words[i].substr(words[i].find('=') + 1);
    if (words[i] == "--config" && i + 1 < words.size()) run = words[i + 1];
  }
  return run.empty() ? Settings() : read_run_settings(real_fs(), run).or_throw().asked;
}

template <typename T>
T parse_number(const std::string& name, const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw UsageError("--" + name + " " + text + ": not a number");
  }
  return value;
}

// Those that begin with one "-" go behind "--".
std::vector<std::string> with_minus_words_last(const std::vector<std::string>& words) {
  const auto begins_so = [](const std::string& w) {
    return w.size() > 1 && w[0] == '-' && w[1] != '-';
  };
  std::vector<std::string> sorted;
  std::ranges::remove_copy_if(words, std::back_inserter(sorted), begins_so);
  sorted.emplace_back("--");
  std::ranges::copy_if(words, std::back_inserter(sorted), begins_so);
  return sorted;
}

// The word of the command line that is not a flag of the verb, if that is what is wrong.
std::string explain(const std::vector<std::string>& words, const std::vector<std::string>& names,
                    const std::map<std::string, std::string>& lacked, const std::string& what) {
  for (const std::string& word : words) {
    if (!word.starts_with("--") || word == "--") continue;
    const std::string name = word.substr(2, word.find('=') - 2);
    if (std::ranges::find(names, name) != names.end()) continue;
    if (const auto at = lacked.find(name); at != lacked.end()) {
      return "there is no --" + name + " here: " + at->second;
    }
    const std::string near = nearest_flag(name, names);
    return "there is no --" + name + (near.empty() ? "" : "; did you mean --" + near + "?");
  }
  return what;
}

}  // namespace

ArgsSpec::ArgsSpec(std::string_view verb)
    : options_(std::make_unique<cxxopts::Options>("ndtrain " + std::string(verb))), verb_(verb) {
  const Heading heading(*this, "Output and help");
  flag("json", "print the result as JSON on stdout");
  flag("q,quiet", "no progress on stderr");
  flag("h,help", "show this help");
}

ArgsSpec::~ArgsSpec() = default;

void ArgsSpec::flag(const std::string& flags, const std::string& help, const std::string& value,
                    const std::string& fallback) {
  const size_t comma = flags.find(',');
  const bool has_letter = comma != std::string::npos;
  flags_.push_back({.name = has_letter ? flags.substr(comma + 1) : flags,
                    .letter = has_letter ? flags.substr(0, comma) : "",
                    .value = value,
                    .fallback = fallback,
                    .help = help,
                    .heading = heading_});
  std::shared_ptr<cxxopts::Value> kind;
  if (value.empty()) {
    kind = cxxopts::value<bool>()->default_value("false")->implicit_value("true");
  } else {
    kind = cxxopts::value<std::vector<std::string>>();
    if (!fallback.empty()) kind->default_value(fallback);
  }
  options_->add_options()(flags, help, kind, value);
}

std::vector<std::string> ArgsSpec::names() const {
  std::vector<std::string> names;
  for (const Flag& flag : flags_) names.push_back(flag.name);
  return names;
}

void ArgsSpec::positional(const std::string& name, const std::string& help) {
  arguments_.push_back({.name = name, .help = help});
  options_->add_options()(name, help, cxxopts::value<std::string>()->default_value(""));
}

void ArgsSpec::positionals(const std::string& name, const std::string& help) {
  arguments_.push_back({.name = name, .help = help, .more = true});
  options_->add_options()(name, help, cxxopts::value<std::vector<std::string>>());
}

Args::Args(ArgsSpec& spec, const std::vector<std::string>& words) {
  std::vector<std::string> all = {"ndtrain"}, positionals;
  const std::vector<std::string> names = spec.names();
  for (const Positional& p : spec.arguments_) positionals.push_back(p.name);
  for (const auto& more : {from_file(spec.verb_, names), from_environment(names)}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  const Settings again = std::ranges::count(names, "config") > 0
                             ? repeated(all, words)
                             : Settings();  // of a run, which go over the file and the environment
  std::erase_if(all, [&](const std::string& word) {
    return std::ranges::any_of(
        again, [&](const auto& kv) { return word.starts_with("--" + kv.first + "="); });
  });
  size_t elsewhere = all.size() - 1;  // each is --NAME=VALUE
  const std::vector<std::string> said = spec.minus_words_ ? with_minus_words_last(words) : words;
  all.insert(all.end(), said.begin(), said.end());
  std::vector<const char*> argv;
  for (const std::string& word : all) argv.push_back(word.c_str());
  spec.options_->parse_positional(positionals);
  try {
    const cxxopts::ParseResult parsed =
        spec.options_->parse(static_cast<int>(argv.size()), argv.data());
    if (!parsed.unmatched().empty())
      throw UsageError("unexpected argument '" + parsed.unmatched()[0] + "'");
    for (const cxxopts::KeyValue& kv : parsed.defaults()) values_[kv.key()] = {kv.value()};
    std::map<std::string, std::string> last;
    for (const cxxopts::KeyValue& kv : parsed.arguments()) {
      const bool fresh = last.emplace(kv.key(), kv.value()).second;
      if (fresh) values_[kv.key()].clear();
      given_.insert(kv.key());
      if (elsewhere == 0) said_here_.insert(kv.key());
      elsewhere -= elsewhere > 0;
      values_[kv.key()].push_back(kv.value());
      last[kv.key()] = kv.value();
    }
    take_repeated(spec, again, last);
  } catch (const cxxopts::exceptions::exception& e) {
    throw UsageError(explain(words, names, spec.lacked_, e.what()));
  }
}

// Of the run that --config names: what the command line does not say.
void Args::take_repeated(const ArgsSpec& spec,
                         const std::vector<std::pair<std::string, std::string>>& run,
                         const std::map<std::string, std::string>& said) {
  for (const auto& [name, value] : run) {
    if (std::ranges::count(spec.flags_, name, &Flag::name) +
            std::ranges::count(spec.arguments_, name, &Positional::name) ==
        0) {
      throw UsageError("the run of --config " + text("config") + " was asked for " + name +
                       ", which this version does not have");
    }
    if (!said.contains(name)) values_[name] = {value};
  }
}

std::vector<std::pair<std::string, std::string>> Args::settings() const {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& [name, values] : values_) {
    if (has(name)) all.emplace_back(name, values.back());
  }
  return all;
}

std::vector<std::string> Args::list(const std::string& name) const {
  const auto it = values_.find(name);
  if (it == values_.end()) return {};
  std::vector<std::string> values = it->second;
  std::erase(values, "");
  return values;
}

bool Args::given(const std::string& name) const { return given_.contains(name); }

bool Args::said_here(const std::string& name) const { return said_here_.contains(name); }

bool Args::has(const std::string& name) const { return !text(name).empty(); }
bool Args::on(const std::string& name) const { return text(name) == "true"; }

std::string Args::text(const std::string& name) const {
  const auto it = values_.find(name);
  return it == values_.end() || it->second.empty() ? "" : it->second.back();
}

std::string Args::required(const std::string& name) const {
  if (!has(name)) {
    const bool is_argument = name.size() > 1 && std::isupper(static_cast<unsigned char>(name[0]));
    throw UsageError((is_argument ? "" : "--") + name + " is missing");
  }
  return text(name);
}

int64_t Args::integer(const std::string& name) const {
  return parse_number<int64_t>(name, text(name));
}
double Args::number(const std::string& name) const {
  return parse_number<double>(name, text(name));
}

uint64_t Args::bytes(const std::string& name) const {
  std::string t = text(name);
  if (t.empty()) return 0;
  uint64_t unit = 1;
  const size_t suffix = std::string("KMGT").find(
      static_cast<char>(std::toupper(static_cast<unsigned char>(t.back()))));
  if (suffix != std::string::npos) {
    unit = uint64_t{1} << (10 * (suffix + 1));
    t.pop_back();
  }
  const uint64_t n = parse_number<uint64_t>(name, t);
  if (n > UINT64_MAX / unit) throw UsageError("--" + name + " " + text(name) + ": too large");
  return n * unit;
}

}  // namespace ndtrain::cli
