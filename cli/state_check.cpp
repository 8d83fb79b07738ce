#include "cli/state_check.h"

#include <algorithm>
#include <regex>
#include <string_view>

#include "cli/file_checks.h"
#include "framework/core/publish.h"
#include "ndp/labels/label_counts_check.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

struct Rule {
  std::string_view role;  // "": of both
  const char* files;      // a pattern for the whole of the path
  bool derived;
  FileCheck check;
  bool counts_labels = false;  // label_counts.h
};

// The first that fits.
constexpr Rule kRules[] = {
    {"", R"((.*/)?\d{10}\.seg)", true, check_segment},
    {"", R"((.*/)?index)", true, check_index},
    {"", R"(tokens\.json)", false, check_tokens},
    {"", R"(audit(\.\d+)?\.jsonl)", false, check_json_lines},
    {"", R"(state\.json)", false, check_state_json},
    {"", R"(collection\.json)", false, check_json},
    {"tuner", R"(labels\.db)", false, check_database, true},
    {"tuner", R"(models/.*\.onnx)", false, check_model},
    {"tuner", "deletions", false, check_deletions},
    {"tuner", "trash", false, check_trash},
    {"tuner", R"((stores|versions|forgotten|watch)\.json)", false, check_json},
    {"tuner", R"(jobs/\d+/(job|closed|quarantine|notes)\.json)", false, check_json},
    {"tuner", R"(jobs/\d+/.*(answers|gains|lowered)\.json)", true, check_json},
    {"tuner", R"(jobs/\d+/lowered\.onnx)", true, check_lowered},
    {"tuner", R"(jobs/\d+/run/metrics\.jsonl)", false, check_json_lines},
    {"tuner", R"(jobs/\d+/run/(last|best)\.safetensors)", false, check_checkpoint},
    {"tuner", R"(jobs/\d+/(manifest|numerics)\.cbor)", false, check_cbor},
    {"tuner", R"(features/.*\.json)", true, check_json},
    {"tuner", R"(holders/[0-9a-f]{64}\.set)", true, check_digest_set},
    {"pipestore", R"(models/.*\.onnx)", true, check_model},
    {"pipestore", R"(cache/.*\.(db|sqlite))", true, check_database},
    {"pipestore", R"((in_force|deletions|scrub)\.json)", true, check_json},
    {"pipestore", R"(trash\.bin)", true, check_store_trash},
    {"pipestore", "uploads/log", false, check_upload_log},
    {"pipestore", R"(uploads/[0-9a-f]{2}/[0-9a-f]{64}\..*)", false, check_upload},
};

struct CompiledRule {
  const Rule& rule;
  std::regex files;
};

std::vector<CompiledRule> rules_of(const std::string& role) {
  std::vector<CompiledRule> rules;
  for (const Rule& rule : kRules) {
    if (rule.role.empty() || rule.role == role) rules.push_back({rule, std::regex(rule.files)});
  }
  return rules;
}

// Null: none fits.
const Rule* rule_of(const std::vector<CompiledRule>& rules, const std::string& name) {
  for (const CompiledRule& c : rules) {
    if (std::regex_match(name, c.files)) return &c.rule;
  }
  return nullptr;
}

// Locks, what a crash left, and what belongs to a database beside it.
bool holds_nothing(const std::string& name) {
  return name == "lock" || name.ends_with(".lock") || is_temporary(name) ||
         name.ends_with("-wal") || name.ends_with("-shm");
}

struct StateFile {
  std::string name;
  int64_t bytes;
};

void list_files(Fs& fs, const std::string& state, const std::string& below,
                std::vector<StateFile>& to) {
  std::vector<std::string> names = fs.list(join(state, below)).or_throw();
  std::ranges::sort(names);
  for (const std::string& entry : names) {
    const std::string name = join(below, entry);
    const FileInfo info = fs.info(join(state, name)).or_throw();
    if (info.is_directory) {
      list_files(fs, state, name, to);
    } else if (!holds_nothing(entry)) {
      to.push_back({name, info.size});
    }
  }
}

void remove(Fs& fs, const std::string& path) {
  for (const char* beside : {"-wal", "-shm", ""}) {
    if (fs.exists(path + beside)) fs.remove(path + beside).or_throw();
  }
}

void check_counts(const std::string& path, const std::string& name, bool repair,
                  std::vector<DamagedFile>& to) {
  const Status s = check_label_counts(path);
  if (s.ok()) return;
  const bool counted = repair && s.code() == Code::kCorrupt;
  if (counted) count_labels_again(path).or_throw();
  to.push_back({.file = name,
                .what = s.message(),
                .derived = s.code() == Code::kCorrupt,
                .mended = counted});
}

}  // namespace

bool CheckedState::whole() const {
  return std::ranges::all_of(damaged, [](const DamagedFile& f) { return f.removed || f.mended; });
}

FileCheck check_of(const std::string& role, const std::string& name) {
  const std::vector<CompiledRule> rules = rules_of(role);
  const Rule* const rule = rule_of(rules, name);
  return rule ? rule->check : nullptr;
}

CheckedState check_state(Fs& fs, const std::string& state, const std::string& role, bool repair,
                         Progress& progress) {
  const std::vector<CompiledRule> rules = rules_of(role);
  std::vector<StateFile> files;
  list_files(fs, state, "", files);
  CheckedState found;
  for (const StateFile& f : files) found.bytes += f.bytes;
  progress.begin("checking", found.bytes, "bytes");
  int64_t done = 0;
  for (const auto& [name, bytes] : files) {
    if (progress.interrupted()) return found;
    ++found.files;
    const Rule* const rule = rule_of(rules, name);
    if (rule == nullptr) {
      found.unchecked.push_back(name);
    } else if (const Status s = rule->check(fs, join(state, name)); !s.ok()) {
      const bool derived = rule->derived;
      if (repair && derived) remove(fs, join(state, name));
      found.damaged.push_back({name, s.message(), derived, repair && derived});
    } else if (rule->counts_labels) {
      check_counts(join(state, name), name, repair, found.damaged);
    }
    progress.update(done += bytes, name);
  }
  progress.end();
  return found;
}

}  // namespace ndtrain::cli
