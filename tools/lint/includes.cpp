#include <algorithm>
#include <map>
#include <set>

#include "tools/lint/rules.h"
#include "tools/lint/text.h"

namespace ndtrain::lint {
namespace {

using Names = std::vector<std::string_view>;

// What a folder may include besides itself and what stands below that.
const std::map<std::string_view, Names> kTable = {
    {"framework/core", {}},
    {"framework/testing", {"framework/core"}},
    {"framework/comm", {"framework/core"}},
    {"framework/tls", {"framework/core"}},
    {"framework/graph", {"framework/core"}},
    {"framework/ops", {"framework/graph"}},
    {"framework/passes", {"framework/graph"}},
    {"framework/onnx", {"framework/graph"}},
    {"framework/runtime", {"framework/passes", "framework/ops"}},
    {"framework/quantize", {"framework/runtime"}},
    {"framework/train", {"framework/runtime", "framework/comm"}},
    {"framework/numeric", {"framework/core"}},
    {"framework/parallel", {"framework/train", "framework/comm", "framework/numeric"}},
    {"framework/pipeline/planner", {"framework/parallel", "framework/pipeline/schedules"}},
    {"framework/pipeline/profiler", {"framework/pipeline/planner"}},
    {"framework/pipeline/run",
     {"framework/parallel", "framework/pipeline/schedules", "framework/pipeline/stages"}},
    {"framework/pipeline/schedules", {"framework/core"}},
    {"framework/pipeline/stages", {"framework/train"}},
    {"framework/sparse/control", {"framework/numeric"}},
    {"framework/sparse/local", {"framework/sparse/sync"}},
    {"framework/sparse/low_rank", {"framework/sparse/sync"}},
    {"framework/sparse/optimizers", {"framework/sparse/selection", "framework/train"}},
    {"framework/sparse/plan",
     {"framework/sparse/control", "framework/sparse/local", "framework/sparse/low_rank"}},
    {"framework/sparse/selection", {"framework/comm"}},
    {"framework/sparse/sync",
     {"framework/sparse/optimizers", "framework/sparse/control", "framework/parallel"}},
    {"models", {"framework/graph", "framework/ops", "framework/onnx"}},
    {"ndp/sqlite", {"framework/core"}},
    {"ndp/deltas", {"framework/onnx"}},
    {"ndp/postgres", {"framework/core", "ndp/sqlite"}},
    {"ndp/photos", {"framework/core", "ndp/sqlite"}},
    {"ndp/rados", {"framework/core"}},
    {"ndp/s3", {"framework/core"}},
    {"ndp/sandbox", {"ndp/jobs", "ndp/http"}},
    {"ndp/store", {"framework/core"}},
    {"ndp/labels", {"framework/core", "ndp/sqlite", "ndp/postgres"}},
    {"ndp/wire", {"framework/tls"}},
    {"ndp/http", {"framework/tls", "ndp/sqlite"}},
    {"ndp/engine", {"framework/runtime", "framework/onnx", "ndp/photos", "ndp/store"}},
    {"ndp/jobs",
     {"ndp/engine", "framework/pipeline/profiler", "framework/pipeline/run", "framework/quantize",
      "framework/sparse/plan", "ndp/labels", "ndp/deltas", "ndp/similarity"}},
    {"ndp/similarity", {"framework/core"}},
    {"ndp/pipestore", {"ndp/rados", "ndp/s3", "ndp/sandbox", "ndp/wire"}},
    {"tuner", {"tuner/work", "tuner/watch", "tuner/http", "ndp/sandbox"}},
    {"tuner/ingest", {"ndp/jobs", "ndp/wire"}},
    {"tuner/models", {"ndp/jobs", "ndp/wire"}},
    {"tuner/jobs", {"tuner/ingest", "tuner/models"}},
    {"tuner/group", {"tuner/jobs", "framework/pipeline/profiler"}},
    {"tuner/work", {"tuner/group"}},
    {"tuner/plan", {"tuner/jobs"}},
    {"tuner/service", {"tuner/plan", "ndp/http"}},
    {"tuner/watch", {"tuner/service"}},
    {"tuner/http", {"tuner/service", "tuner/group"}},
};

const std::map<std::string_view, Names>& table() { return kTable; }

// The contracts with plugins: of devices, and of communication.
constexpr std::string_view kBackendAbi = "framework/runtime/backend_abi.h";
constexpr std::string_view kCommAbi = "framework/comm/comm_abi.h";
constexpr std::string_view kInEveryPlugin = "backends/plugin";
constexpr std::string_view kForTests = "framework/testing";  // no part of what is installed
// What may include anything, and is itself included by its own kind only.
const Names kTops = {"cli", "tests", "bench", "tools", "examples"};

bool lies_in(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

std::string_view first_folder(std::string_view path) { return path.substr(0, path.find('/')); }

// The plugin a path belongs to: "backends/cpu"; "" if none.
std::string_view plugin_of(std::string_view path) {
  if (!lies_in(path, "backends")) return {};
  return path.substr(0, path.find('/', std::string_view("backends/").size()));
}

// The innermost one that the table has; "" if none.
std::string_view folder_of(std::string_view path) {
  std::string_view innermost;
  for (const auto& [folder, below] : table()) {
    if (lies_in(path, folder) && folder.size() > innermost.size()) innermost = folder;
  }
  return innermost;
}

bool reaches(std::string_view from, std::string_view to) {
  if (from == to) return true;
  return std::ranges::any_of(table().at(from), [&](auto below) { return reaches(below, to); });
}

// Empty when `path` may include `include`, else why not.
std::string refusal(std::string_view path, std::string_view include) {
  if (include.starts_with('.') || include.find('/') == include.npos) {
    return "is not a path from the root of the tree";
  }
  if (const std::string_view plugin = plugin_of(path); !plugin.empty()) {
    if (plugin_of(include) == plugin || plugin_of(include) == kInEveryPlugin) return "";
    if (include == kBackendAbi || (include == kCommAbi && plugin != kInEveryPlugin)) return "";
    return "a plugin may include its own files, " + std::string(kInEveryPlugin) + ", " +
           std::string(kBackendAbi) + " and " + std::string(kCommAbi) + " only";
  }
  const std::string_view from = folder_of(path), to = folder_of(include);
  const bool from_top = std::ranges::count(kTops, first_folder(path)) > 0;
  if (to == kForTests && from != to && first_folder(path) != "tests") return "is for tests alone";
  if (from.empty() && !from_top) return "the folder of this file is not in the include table";
  if (to.empty()) {
    if (from_top &&
        (std::ranges::count(kTops, first_folder(include)) > 0 || !plugin_of(include).empty())) {
      return "";
    }
    return "is in no folder that may be included from here";
  }
  if (from_top || reaches(from, to)) return "";
  return std::string(from) + " may not include " + std::string(to);
}

}  // namespace

std::vector<Problem> check_includes(const File& file) {
  std::vector<Problem> problems;
  if (!is_cpp(file.path)) return problems;
  size_t number = 0;
  for (const std::string_view line : lines_of(file.text)) {
    ++number;
    const std::string_view include = quoted_include(line);
    if (include.empty()) continue;
    if (const std::string why = refusal(file.path, include); !why.empty()) {
      problems.push_back({file.path, number, "#include \"" + std::string(include) + "\": " + why});
    }
  }
  return problems;
}

std::string include_table() {
  constexpr size_t kColumns = 132;
  std::string text, line;
  const auto add = [&](const std::string& entry) {
    if (!line.empty() && line.size() + 1 + entry.size() > kColumns) {
      text += line + '\n';
      line.clear();
    }
    line += (line.empty() ? "" : " ") + entry;
  };
  for (const auto& [folder, below] : table()) {
    std::string names;
    for (const std::string_view name : below) names += ' ' + std::string(name);
    add(std::string(folder) + ':' + (below.empty() ? " nothing" : names) + ';');
  }
  add(std::string(kInEveryPlugin) + ": " + std::string(kBackendAbi) + ';');
  add("each of the other backends: " + std::string(kInEveryPlugin) + ' ' + std::string(kCommAbi) +
      ';');
  std::string tops;
  for (const std::string_view top : kTops) tops += std::string(top) + ' ';
  add(tops + "(tops): anything, but " + std::string(kForTests) + " tests alone.");
  return text + line + '\n';
}

std::vector<Problem> check_table(const File& file) {
  if (file.path != kArchitecture) return {};
  if (file.text.find(include_table()) != file.text.npos) return {};
  return {{file.path, 1, "has another include table than ndt_lint --table prints"}};
}

std::vector<std::string> unproven_headers(std::span<const File> tree) {
  std::set<std::string_view> proven;
  for (const File& f : tree) {
    if (!is_source(f.path)) continue;
    for (const std::string_view line : lines_of(f.text)) {
      if (!trimmed(line).starts_with("#include")) continue;
      proven.insert(quoted_include(line));
      break;
    }
  }
  std::vector<std::string> headers;
  for (const File& f : tree) {
    if (is_header(f.path) && !proven.contains(f.path)) headers.push_back(f.path);
  }
  return headers;
}

}  // namespace ndtrain::lint
