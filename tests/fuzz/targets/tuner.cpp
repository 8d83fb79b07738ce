#include <nlohmann/json.hpp>

#include "framework/core/checksummed_json.h"
#include "framework/core/json_input.h"
#include "framework/testing/memory_fs.h"
#include "ndp/http/tokens.h"
#include "ndp/photos/label_rows.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/files.h"
#include "tuner/jobs/job_spec.h"
#include "tuner/models/versions.h"
#include "tuner/service/deletion_log.h"
#include "tuner/service/known_stores.h"
#include "tuner/service/trash_log.h"
#include "tuner/watch/watch_rule.h"

namespace ndtrain::fuzz {
namespace {

using namespace tuner;

constexpr const char* kDirectory = "d";
constexpr const char* kFile = "d/file";

bool read_any_json(std::string_view input) { return ndtrain::read_json(input).ok(); }
std::vector<std::string> any_json() { return {R"({"a": [1, 2.5e3, "\u00e9", null, true]})"}; }

bool read_job(std::string_view input) {
  parse_job_spec(input);
  return true;
}
std::vector<std::string> jobs() {
  return {JobSpec{}.text(), R"({"kind": "relabel", "top_k": 3, "dry_run": true})"};
}

bool read_rule(const char* file, std::string_view input) {
  MemoryFs fs;
  support::write_file(fs, file, input);
  load_watch_rule(fs, file);
  return true;
}
bool read_json_rule(std::string_view input) { return read_rule("rule.json", input); }
bool read_toml_rule(std::string_view input) { return read_rule("rule.toml", input); }
std::vector<std::string> json_rules() {
  return {R"({"labels": 10, "every_s": 5, "job": {"epochs": 3}})"};
}
std::vector<std::string> toml_rules() {
  return {"labels = 10\nevery_s = 5.5\n[job]\nstores = [\"b\", \"a\"]\nepochs = 3\n"};
}

bool read_tokens(std::string_view input) { return ndp::parse_tokens(input).ok(); }
std::vector<std::string> tokens() {
  return {ndp::tokens_text({{.name = "ann"}, {.name = "bob", .role = ndp::Role::kOperator}})};
}

bool read_labels(const char* file, std::string_view input) {
  const auto labels = ndp::read_label_rows(file, input);
  return labels.ok() && !labels->rows.empty();
}
bool read_csv(std::string_view input) { return read_labels("l.csv", input); }
bool read_jsonl(std::string_view input) { return read_labels("l.jsonl", input); }
bool read_array(std::string_view input) { return read_labels("l.json", input); }
constexpr const char* kLabel = R"({"path": "a.jpg", "label": "cat", "source": "truth"})";
std::vector<std::string> csv() {
  return {"file,class\na.jpg,cat\n\"b,c.jpg\",\"the \"\"dog\"\"\"\n"};
}
std::vector<std::string> jsonl() { return {std::string(kLabel) + "\n" + kLabel + "\n"}; }
std::vector<std::string> json() { return {"[" + std::string(kLabel) + "]"}; }

bool read_versions(std::string_view input) {
  MemoryFs fs;
  support::write_file(fs, kFile, input);
  return !Versions(fs, kFile).tasks().empty();
}
std::vector<std::string> versions() {
  MemoryFs fs;
  fs.make_directories(kDirectory).or_throw();
  Versions versions(fs, kFile);
  versions.add_collection("birds", "garden").or_throw();
  // Without its checksum, which would let nothing else through.
  Json state = verified(fs.read(kFile).or_throw());
  return {state.dump()};
}

bool read_deletions(std::string_view input) {
  MemoryFs fs;
  support::write_file(fs, join(kDirectory, "deletions"), input);
  return DeletionLog(fs, kDirectory).size() > 0;
}
std::vector<std::string> deletions() {
  MemoryFs fs;
  fs.make_directories(kDirectory).or_throw();
  DeletionLog log(fs, kDirectory);
  log.add(std::vector<Digest>{sha256("a"), sha256("b")}).or_throw();
  return {fs.read(join(kDirectory, "deletions")).or_throw()};
}

bool read_trash(std::string_view input) {
  MemoryFs fs;
  support::write_file(fs, join(kDirectory, "trash"), input);
  return !TrashLog(fs, kDirectory).photos().empty();
}
std::vector<std::string> trash() {
  MemoryFs fs;
  fs.make_directories(kDirectory).or_throw();
  TrashLog log(fs, kDirectory);
  log.put({{.photo = sha256("a"), .who = "ann", .since = 1, .until = 2, .paths = {"p.jpg"}}})
      .or_throw();
  return {fs.read(join(kDirectory, "trash")).or_throw()};
}

bool read_known_stores(std::string_view input) {
  MemoryFs fs;
  support::write_file(fs, join(kDirectory, "stores.json"), input);
  return !KnownStores(fs, kDirectory).all().empty();
}
std::vector<std::string> known_stores() {
  MemoryFs fs;
  fs.make_directories(kDirectory).or_throw();
  KnownStores stores(fs, kDirectory);
  stores.put("attic", {.photos = 3, .link = {.up = 1e8, .down = 9e7, .measured = 7}}).or_throw();
  Json state = verified(fs.read(join(kDirectory, "stores.json")).or_throw());
  return {state.dump()};
}

}  // namespace

std::vector<FuzzTarget> tuner_targets() {
  return {{"json", read_any_json, any_json},
          {"job_spec", read_job, jobs},
          {"rule_json", read_json_rule, json_rules},
          {"rule_toml", read_toml_rule, toml_rules},
          {"tokens", read_tokens, tokens},
          {"labels_csv", read_csv, csv},
          {"labels_jsonl", read_jsonl, jsonl},
          {"labels_json", read_array, json},
          {"versions", read_versions, versions},
          {"deletions", read_deletions, deletions},
          {"trash", read_trash, trash},
          {"known_stores", read_known_stores, known_stores}};
}

}  // namespace ndtrain::fuzz
