// Every file of both state directories, of a Tuner and a PipeStore that have done a bit of all that
// they do: a bit of it is another, it is cut off, it is gone. NDT_FLIPS says how many bits.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <regex>
#include <set>

#include "cli/state_check.h"
#include "framework/core/checksummed_json.h"
#include "framework/core/json.h"
#include "framework/core/rng.h"
#include "framework/train/checkpoint.h"
#include "ndp/http/http_client.h"
#include "ndp/http/tokens.h"
#include "ndp/jobs/run_directory.h"
#include "ndp/sqlite/sqlite.h"
#include "tests/roles/roles_fixture.h"

namespace ndtrain {
using namespace ndp;
using namespace tuner;

namespace {

namespace files = std::filesystem;

struct RottenFile {
  std::string state, role, name;  // state: below the test's directory

  std::string path() const { return join(state, name); }
  // Files of one kind have one: what numbers and digests their names have is left out.
  std::string kind() const {
    static const std::regex digest("[0-9a-f]{16,}"), number(R"(\d+)"), two("uploads/[0-9a-f]{2}/");
    std::string kind = std::regex_replace(name, digest, "H");
    kind = std::regex_replace(kind, two, "uploads/H/");
    return role + " " + std::regex_replace(kind, number, "N");
  }
};

struct KindOfFile {
  std::vector<RottenFile> all;
  int64_t bytes = 0, flips = 0, detected = 0, harmless = 0, wrong = 0;
};

bool is_database(const std::string& name) {
  return name.ends_with(".db") || name.ends_with(".sqlite");
}

// Each row of each table.
std::string rows_of(const std::string& database) {
  sql::Database db(database);
  std::vector<std::string> tables;
  sql::Statement names(db, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name");
  while (names.step()) tables.push_back(names.bytes(0));
  std::string text;
  for (const std::string& table : tables) {
    std::string columns;
    sql::Statement info(db, "SELECT name FROM pragma_table_info(?)");
    info.bind(std::string_view(table));
    while (info.step()) {
      columns += (columns.empty() ? "" : " || '|' || ") + fmt::format("quote({})", info.bytes(0));
    }
    sql::Statement rows(db, fmt::format("SELECT {} FROM {} ORDER BY 1", columns, table));
    while (rows.step()) text += table + " " + rows.bytes(0) + "\n";
  }
  return text;
}

class RottenFiles : public testing::RolesTest {
 protected:
  PipeStoreConfig attic() const {
    PipeStoreConfig config = store("attic", 0, 1);
    config.scrub = std::chrono::seconds(1);
    return config;
  }
  JobSpec finetune() const {
    JobSpec spec{.stores = 1};
    spec.head = "linear";
    spec.trainer.epochs = 1;
    spec.model = to_hex(*model_);
    return spec;
  }

  // A job of each kind, uploads, words of people, notes, a deletion, the trash, tokens, audits.
  void work() {
    std::ofstream(at("photos/c0/broken.jpg")) << "no photo";
    {
      TunerDaemon daemon(tuner("state"), devices_, real_fs(), system_clock());
      model_ = daemon.add_model(at("base.onnx"));
      const testing::RunningStore store(attic(), devices_);
      outcome(daemon, finetune());
    }
    {
      TunerConfig config = tuner("state");
      config.http = "127.0.0.1:0";
      PipeStoreConfig with_http = attic();
      with_http.http = "127.0.0.1:0";
      const testing::RunningTuner t(config, devices_);
      const testing::RunningStore s(with_http, devices_);
      people(HttpClient("http://" + t.http()), HttpClient("http://" + s.http()));
    }
    TokensFile::open(real_fs(), at("state")).or_throw().add({.name = "ann"}).or_throw();
    for (const RottenFile& f : all_files()) kinds_[f.kind()].all.push_back(f);
  }
  void people(const HttpClient& t, const HttpClient& s) {
    const auto done = [](const Result<HttpResponse>& r) { return r.ok() && r->status / 100 == 2; };
    std::vector<std::string> ids;
    for (uint64_t i = 0; i < 3; ++i) {
      const Image photo = cli::draw_demo_photo(0, cli::Look::kDay, 999 + i);
      ids.push_back(to_hex(sha256(encode_jpeg(photo))));
      await([&] { return done(s.post("/photos", encode_jpeg(photo))); });
    }
    await([&] { return done(s.put("/photos/" + ids[0] + "/label", R"({"label": "rose"})")); });
    ASSERT_TRUE(done(t.post("/jobs/1/notes", R"({"note": "the first"})")));
    await([&] { return done(t.post("/trash/" + ids[1], "")); });
    ASSERT_TRUE(done(s.remove("/photos/" + ids[2])));
    await([&] {
      return files::exists(at("state-attic/trash.bin")) &&
             files::exists(at("state-attic/deletions.json")) &&
             files::exists(at("state-attic/scrub.json")) && files::exists(at("state/trash")) &&
             files::exists(at("state/forgotten.json"));
    });
  }

  std::vector<RottenFile> all_files() const {
    std::vector<RottenFile> all;
    for (const char* const state : {"state", "state-attic"}) {
      for (const auto& e : files::recursive_directory_iterator(at(state))) {
        if (!e.is_regular_file() || e.file_size() == 0 || e.path().string().ends_with("lock")) {
          continue;
        }
        all.push_back({state, std::string(state) == "state" ? "tuner" : "pipestore",
                       files::relative(e.path(), at(state)).string()});
      }
    }
    std::ranges::sort(all, {}, &RottenFile::path);
    return all;
  }
  cli::CheckedState check(const std::string& state, bool repair = false) const {
    NoProgress progress;
    return cli::check_state(real_fs(), at(state), state == "state" ? "tuner" : "pipestore", repair,
                            progress);
  }
  std::string bytes_of(const RottenFile& f) const {
    return real_fs().read(at(f.path())).or_throw();
  }
  void put(const RottenFile& f, const std::string& bytes) const {
    if (is_database(f.name)) {
      for (const char* const beside : {"-wal", "-shm"}) files::remove(at(f.path()) + beside);
    }
    std::ofstream(at(f.path()), std::ios::binary | std::ios::trunc) << bytes;
  }
  // What the role reads there, of files whose bytes may differ and say the same.
  std::string content(const RottenFile& f) const {
    if (is_database(f.name)) return rows_of(at(f.path()));
    const std::string bytes = bytes_of(f);
    if (f.name.ends_with(".json")) return json_text(verified(bytes));
    if (f.name.ends_with(".safetensors")) {
      return checkpoint_bytes(parse_checkpoint(bytes).or_throw());
    }
    if (f.name.ends_with("metrics.jsonl")) {
      std::string rows;
      for (const EpochRow& row : parse_metrics(bytes)) rows += metrics_line(row);
      return rows;
    }
    return bytes;
  }

  void flip(KindOfFile& kind, const RottenFile& f, cli::FileCheck check, int n, Rng& rng) const {
    const std::string whole = bytes_of(f), good = content(f);
    for (int i = 0; i < n; ++i) {
      const size_t where = rng.next_below(whole.size());
      const auto bit = static_cast<int>(rng.next_below(8));
      std::string bytes = whole;
      bytes[where] = static_cast<char>(bytes[where] ^ (1 << bit));
      put(f, bytes);
      ++kind.flips;
      if (!check(real_fs(), at(f.path())).ok()) {
        ++kind.detected;
        continue;
      }
      const bool same = content(f) == good;
      ++(same ? kind.harmless : kind.wrong);
      EXPECT_TRUE(same) << f.path() << ": bit " << bit << " of byte " << where;
    }
    put(f, whole);
  }

  std::optional<Digest> model_;
  std::map<std::string, KindOfFile> kinds_;
};

TEST_F(RottenFiles, ABitThatIsAnotherIsFoundOrChangesNothing) {
  const char* const wanted = std::getenv("NDT_FLIPS");
  const int flips = wanted ? std::atoi(wanted) : 4000;
  work();
  int kinds = 0;
  for (const auto& [name, kind] : kinds_)
    kinds += cli::check_of(kind.all[0].role, kind.all[0].name) != nullptr;
  Rng rng(24, "rot");
  std::string table, without;
  KindOfFile sum;
  for (auto& [name, kind] : kinds_) {
    for (const RottenFile& f : kind.all) kind.bytes += static_cast<int64_t>(bytes_of(f).size());
    const cli::FileCheck check = cli::check_of(kind.all[0].role, kind.all[0].name);
    if (check == nullptr) {
      without += fmt::format("  {}, {} bytes\n", name, kind.bytes);
      continue;
    }
    const int each = std::max<int>(1, flips / kinds / static_cast<int>(kind.all.size()));
    for (const RottenFile& f : kind.all) flip(kind, f, check, each, rng);
    table += fmt::format("{:<52} {:>5} {:>9} {:>8} {:>8} {:>8} {:>5}\n", name, kind.all.size(),
                         kind.bytes, kind.flips, kind.detected, kind.harmless, kind.wrong);
    sum.flips += kind.flips, sum.detected += kind.detected, sum.harmless += kind.harmless;
    sum.wrong += kind.wrong;
  }
  std::cout << fmt::format("{:<52} {:>5} {:>9} {:>8} {:>8} {:>8} {:>5}\n", "kind of file", "files",
                           "bytes", "flips", "detected", "harmless", "wrong")
            << table
            << fmt::format("{:<52} {:>5} {:>9} {:>8} {:>8} {:>8} {:>5}\n", "all", "", "", sum.flips,
                           sum.detected, sum.harmless, sum.wrong)
            << "without a checksum:\n"
            << without;
  EXPECT_GE(kinds, 25);
  EXPECT_EQ(sum.wrong, 0);
  EXPECT_GT(sum.detected, sum.flips * 9 / 10);
  for (const char* const state : {"state", "state-attic"}) {
    EXPECT_TRUE(check(state).damaged.empty()) << state << " is as it was";
  }
}

// What becomes of the file that is damaged in one of the ways below.
class RepairedFiles : public RottenFiles {
 protected:
  // Of the files that `fsck --repair` may remove, one of each kind.
  std::vector<RottenFile> derived() {
    std::vector<RottenFile> some;
    for (const auto& [name, kind] : kinds_) {
      const RottenFile& f = kind.all.front();
      const std::string good = bytes_of(f);
      put(f, good.substr(0, good.size() / 2));
      const cli::CheckedState found = check(f.state);
      put(f, good);
      for (const cli::DamagedFile& d : found.damaged) {
        if (d.file == f.name && d.derived) some.push_back(f);
      }
    }
    return some;
  }
  void damage(const RottenFile& f, const std::string& how) const {
    std::string bytes = bytes_of(f);
    if (how == "deleted") {
      files::remove(at(f.path()));
    } else if (how == "torn") {
      put(f, bytes.substr(0, bytes.size() / 2));
    } else {
      bytes[bytes.size() / 2] ^= 1;
      put(f, bytes);
    }
  }
  void restore_all() const {
    for (const char* const state : {"state", "state-attic"}) {
      files::remove_all(at(state));
      files::copy(at(std::string("saved-") + state), at(state), files::copy_options::recursive);
    }
  }
  // Both roles do what they did before.
  void work_again(uint64_t seed) {
    const auto done = [this](const JobSpec& spec) {  // a daemon does one job
      TunerDaemon daemon(tuner("state"), devices_, real_fs(), system_clock());
      return outcome(daemon, spec);
    };
    const testing::RunningStore store(attic(), devices_);
    const auto labelled = done({.kind = JobKind::kRelabel, .stores = 1});
    EXPECT_GE(labelled["labelled"], kPhotos - 3) << labelled.dump();
    JobSpec spec = finetune();
    spec.seed = seed;
    done(spec);
    await([&] { return files::exists(at("state-attic/scrub.json")); });
  }
  // Whether the role wrote that very file again, or, of segments, others of its kind.
  bool is_there(const RottenFile& f) const {
    if (files::exists(at(f.path()))) return true;
    return std::ranges::any_of(all_files(),
                               [&](const RottenFile& g) { return g.kind() == f.kind(); });
  }
};

TEST_F(RepairedFiles, AreMadeAgainHoweverTheyWereDamaged) {
  work();
  for (const char* const state : {"state", "state-attic"}) {
    files::copy(at(state), at(std::string("saved-") + state), files::copy_options::recursive);
  }
  const std::vector<RottenFile> all = derived();
  std::string table;
  uint64_t seed = 100;
  for (const RottenFile& f : all) {
    for (const char* const how : {"deleted", "torn", "flipped"}) {
      SCOPED_TRACE(f.path() + ", " + how);
      restore_all();
      damage(f, how);
      const cli::CheckedState found = check(f.state, true);
      EXPECT_TRUE(found.whole());
      EXPECT_EQ(found.damaged.size(), std::string(how) == "deleted" ? 0U : 1U);
      EXPECT_FALSE(files::exists(at(f.path())));
      work_again(++seed);
      EXPECT_TRUE(is_there(f));
      for (const char* const state : {"state", "state-attic"}) {
        EXPECT_TRUE(check(state).damaged.empty()) << state;
      }
      table +=
          fmt::format("{:<52} {:<8} {}\n", f.kind(), how, HasFailure() ? "FAILED" : "made again");
    }
  }
  std::cout << table;
  std::set<std::string> kinds;
  for (const RottenFile& f : all) kinds.insert(f.kind());
  for (const char* const kind :
       {"pipestore in_force.json", "pipestore deletions.json", "pipestore trash.bin",
        "pipestore scrub.json", "pipestore models/H.onnx", "tuner features/N.seg"}) {
    EXPECT_TRUE(kinds.contains(kind)) << kind;
  }
}

}  // namespace
}  // namespace ndtrain
