#include "ndp/jobs/run_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "framework/core/json.h"
#include "framework/core/limits.h"
#include "ndp/jobs/toml.h"

namespace ndtrain::ndp {
namespace {

constexpr const char* kBegun = "begun";
constexpr std::string_view kSources[] = {"DATA", "model",      "labels", "db",
                                         "task", "collection", "pseudo"};

Result<RunSettings> parse(const std::string& toml, const std::string& name) {
  toml::table table;
  try {
    table = parse_toml(toml);
  } catch (const Error& e) {
    return Status(Code::kCorrupt, name + ": " + e.what());
  }
  const toml::table* begun = table[kBegun].as_table();
  if (!begun) {
    return Status(Code::kCorrupt, name +
                                      " is of an older version, which did not write down all "
                                      "that a run is repeated or gone on with by");
  }
  RunSettings run;
  for (const auto& [key, node] : table) {
    if (const auto value = node.value<std::string>()) {
      run.asked.emplace_back(std::string(key.str()), *value);
    } else if (key.str() != kBegun) {
      return Status(Code::kCorrupt,
                    fmt::format("{}: {} is no text in quotes", name, std::string(key.str())));
    }
  }
  const auto text = [&](const char* key) { return (*begun)[key].value_or(std::string()); };
  run.version = text("version");
  run.directory = text("directory");
  run.numerics = text("numerics");
  run.model = text("model_sha256");
  run.photos = text("photos");
  run.digest = text("photos_sha256");
  return run;
}

}  // namespace

std::string flag_of(const std::string& name) {
  const bool is_argument = std::isupper(static_cast<unsigned char>(name[0])) != 0;
  return is_argument ? name : "--" + name;
}

bool is_off(const std::string& value) { return value.empty() || value == "false"; }

bool is_source(const std::string& flag) { return std::ranges::count(kSources, flag) > 0; }

std::string RunSettings::text(const std::string& flag) const {
  const auto it = std::ranges::find(asked, flag, &Settings::value_type::first);
  return it == asked.end() ? "" : it->second;
}

std::string to_toml(const RunSettings& run) {
  std::string out =
      "# What this run was asked for. To repeat it, in the directory below:\n"
      "#   ndtrain train --config THIS_FILE -o ANOTHER_RUN\n";
  const auto add = [&](const std::string& key, const std::string& value) {
    out += key + " = " + json_text(Json(value)) + "\n";
  };
  for (const auto& [flag, value] : run.asked) add(flag, value);
  out += fmt::format("\n[{}]\n", kBegun);
  add("version", run.version);
  add("directory", run.directory);
  add("numerics", run.numerics);
  add("model_sha256", run.model);
  add("photos", run.photos);
  add("photos_sha256", run.digest);
  return out;
}

Result<RunSettings> read_run_settings(Fs& fs, const std::string& path) {
  const Result<FileInfo> info = fs.info(path);
  const std::string name = info.ok() && info->is_directory ? join(path, kRunArgs) : path;
  const Result<std::string> text = fs.read(name, limits::kLabelsFile);
  if (!text.ok()) return text.status();
  return parse(*text, name);
}

std::vector<std::string> changed_settings(const RunSettings& before, const RunSettings& now) {
  std::set<std::string> flags;
  for (const RunSettings* run : {&before, &now}) {
    for (const auto& [flag, value] : run->asked) flags.insert(flag);
  }
  const auto shown = [](const std::string& s) { return s.empty() ? "not given" : s; };
  std::vector<std::string> changed;
  for (const std::string& flag : flags) {
    const std::string was = before.text(flag), is = now.text(flag);
    if (was == is || is_source(flag)) continue;
    if (is_off(was) && is_off(is)) continue;
    changed.push_back(fmt::format("{} is {} and was {}", flag_of(flag), shown(is), shown(was)));
  }
  return changed;
}

std::vector<std::string> changed_inputs(const RunSettings& before, const RunSettings& now) {
  std::vector<std::string> changed;
  if (before.model != now.model) {
    changed.push_back(fmt::format("the model {} is another one (its id is {:.12}… and was {:.12}…)",
                                  now.text("model"), now.model, before.model));
  }
  if (before.digest != now.digest) {
    changed.push_back(fmt::format("the photos or their labels are others ({}, and were {})",
                                  now.photos, before.photos));
  }
  return changed;
}

std::vector<std::string> changed_numerics(const RunSettings& before, const RunSettings& now) {
  if (before.numerics == now.numerics) return {};
  return {fmt::format("what computes is another backend, processor or version ({}, and was {})",
                      now.numerics, before.numerics)};
}

}  // namespace ndtrain::ndp
