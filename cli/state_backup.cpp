#include "cli/state_backup.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <tuple>

#include "cli/archive.h"
#include "framework/core/json.h"
#include "framework/core/publish.h"
#include "ndp/sqlite/database_check.h"
#include "ndp/sqlite/snapshot.h"
#include "ndp/wire/state_directory.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

constexpr int kMoments = 1000;  // tries until nothing changes for the few milliseconds it takes
constexpr std::chrono::milliseconds kBetweenMoments{3};
constexpr int kCopies = 20;
constexpr char kState[] = "state.json";
constexpr char kLabels[] = "labels.db";
constexpr char kUploadLog[] = "uploads/log";
constexpr char kCheckpoint[] = "last.safetensors";

// Small, and each says something of others.
constexpr const char* kOfTheMoment[] = {"collection.json", "deletions",     "deletions.json",
                                        "forgotten.json",  "in_force.json", "state.json",
                                        "stores.json",     "tokens.json",   "trash",
                                        "trash.bin",       "versions.json"};

// Thrown where files that belong together have changed while they were copied.
struct Changed {
  std::string file;
};

using Texts = std::map<std::string, std::string>;

void read_text(Fs& fs, const std::string& state, const std::string& name, Texts& to) {
  Result<std::string> text = fs.read(join(state, name));
  if (text.status().code() == Code::kNotFound) return;
  to.emplace(name, std::move(text).or_throw());
}

Texts read_texts(Fs& fs, const std::string& state) {
  Texts texts;
  for (const char* name : kOfTheMoment) read_text(fs, state, name, texts);
  if (!fs.exists(join(state, "jobs"))) return texts;
  for (const std::string& job : fs.list(join(state, "jobs")).or_throw()) {
    read_text(fs, state, "jobs/" + job + "/job.json", texts);
  }
  return texts;
}

// What does not change after it was written, or is read behind what speaks of it, is not in here.
struct Moment {
  Texts texts;
  std::optional<sql::Snapshot> labels;
};

Moment moment_of(Fs& fs, Clock& clock, const std::string& state) {
  for (int i = 0; i < kMoments; ++i) {
    Moment moment{.texts = read_texts(fs, state), .labels = {}};
    const std::string labels = join(state, kLabels);
    if (fs.exists(labels)) moment.labels.emplace(sql::Snapshot::of(labels).or_throw());
    if (read_texts(fs, state) == moment.texts) return moment;
    clock.sleep(kBetweenMoments);
  }
  throw Error(state, ": its files change all the time; back it up when less is done");
}

// For what SQLite needs a path of; nobody else may read it.
class PrivateDirectory {
 public:
  explicit PrivateDirectory(const std::string& beside) : path_(beside + ".XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw Error(beside, ": cannot make a directory there");
  }
  ~PrivateDirectory() {
    std::error_code ignored;  // nobody can be told
    std::filesystem::remove_all(path_, ignored);
  }
  PrivateDirectory(const PrivateDirectory&) = delete;
  PrivateDirectory& operator=(const PrivateDirectory&) = delete;
  std::string file(const std::string& name) const { return join(path_, name); }

 private:
  std::string path_;
};

class StateCopy {
 public:
  StateCopy(Fs& fs, Clock& clock, const StateBackup& what)
      : fs_(fs), what_(what), moment_(moment_of(fs, clock, what.state)), archive_(fs, what.out) {}

  BackedUp run() {
    for (const auto& [name, text] : moment_.texts) {
      archive_.add(name, text);
      count(static_cast<int64_t>(text.size()));
    }
    add_labels();
    if (is_there(kUploadLog)) add(kUploadLog);  // before the photos that it speaks of
    const auto manifests = manifests_now();
    add_directory("");
    check_versions();
    if (manifests_now() != manifests) throw Changed{"jobs"};
    archive_.finish();
    done_.archive_bytes = archive_.bytes();
    return done_;
  }

 private:
  using Stamp = std::tuple<uint64_t, int64_t, int64_t>;

  std::string path(const std::string& name) const { return join(what_.state, name); }
  bool is_there(const std::string& name) const { return fs_.exists(path(name)); }

  void count(int64_t bytes) {
    ++done_.files;
    done_.bytes += bytes;
  }

  // Of a file that is gone: a store deletes photos and fetches its models again. A Tuner's belong
  // together.
  void gone(const std::string& name) const {
    if (what_.role != "pipestore") throw Changed{name};
  }

  void add(const std::string& name) {
    Result<std::unique_ptr<File>> opened = fs_.open(path(name), Fs::Mode::kRead);
    if (opened.status().code() == Code::kNotFound) return gone(name);
    const std::unique_ptr<File> file = std::move(opened).or_throw();
    const int64_t size = file->size().or_throw();
    archive_.add(name, *file, size);
    count(size);
  }

  void add_labels() {
    if (!moment_.labels) return;
    const PrivateDirectory directory(what_.out);
    moment_.labels->copy_to(directory.file(kLabels)).or_throw();
    moment_.labels.reset();
    const auto file = fs_.open(directory.file(kLabels), Fs::Mode::kRead).or_throw();
    const int64_t size = file->size().or_throw();
    archive_.add(kLabels, *file, size);
    count(size);
    done_.labels = true;
  }

  // Features: a store's from its photos, and a Tuner's by stores, who say what they hold, too. A
  // job that is not done may go on with its rows, where nobody writes them.
  bool is_derived(const std::string& name) const {
    if (name == "cache" || name == "features" || name == "holders") return true;
    if (!name.starts_with("jobs/") || !name.ends_with("/spool")) return false;
    if (what_.at_work) return true;
    const auto job = moment_.texts.find(parent_of(name) + "/job.json");
    if (job == moment_.texts.end()) return false;
    const Json json = try_parse_json(job->second);
    return json.is_object() && json.value("state", "") == "done";
  }

  // Whether it was copied as what is there at the moment, or is none of the role's.
  bool is_done(const std::string& name) const {
    if (moment_.texts.contains(name) || name == kUploadLog || name == "lock") return true;
    if (is_temporary(name_of_path(name))) return true;
    return done_.labels && (name == kLabels || name == std::string(kLabels) + "-wal" ||
                            name == std::string(kLabels) + "-shm");
  }

  void add_all(const std::string& below) {
    Result<std::vector<std::string>> entries = fs_.list(path(below));
    if (entries.status().code() == Code::kNotFound) return gone(below);
    for (const std::string& entry : std::move(entries).or_throw()) {
      const std::string name = join(below, entry);
      const Result<FileInfo> info = fs_.info(path(name));
      if (!info.ok()) {
        if (info.status().code() != Code::kNotFound) throw Error(info.status().message());
        gone(name);
      } else if (!info->is_directory) {
        if (!is_done(name) && entry != kCheckpoint && !name.starts_with("audit.")) add(name);
      } else if (is_derived(name) && !what_.all) {
        done_.left_out.push_back(name);
      } else if (is_accepted(name)) {
        add_directory(name);
      }
    }
    if (below.empty()) add_audit();
  }

  // A run's other files are as new as its checkpoint, or newer, as where a process was killed.
  void add_directory(const std::string& name) {
    const std::string checkpoint = join(name, kCheckpoint);
    if (!is_there(checkpoint)) return add_all(name);
    const Stamp before = stamp(checkpoint);
    add(checkpoint);
    add_all(name);
    if (stamp(checkpoint) != before) throw Changed{checkpoint};
  }

  // A job that was submitted after the moment is none yet.
  bool is_accepted(const std::string& name) const {
    return what_.role != "tuner" || parent_of(name) != "jobs" ||
           moment_.texts.contains(name + "/job.json");
  }

  // In the order in which lines move on to them: some may be there twice, none is missing.
  void add_audit() {
    if (is_there("audit.jsonl")) add("audit.jsonl");
    for (int i = 1; is_there("audit." + std::to_string(i) + ".jsonl"); ++i) {
      add("audit." + std::to_string(i) + ".jsonl");
    }
  }

  Stamp stamp(const std::string& name) const {
    const Result<FileInfo> info = fs_.info(path(name));
    if (!info.ok()) return {};
    return {info->inode, info->size, info->mtime_ns};
  }

  // Which photos jobs are about. What else a job has kept belongs to these.
  std::map<std::string, Stamp> manifests_now() const {
    std::map<std::string, Stamp> stamps;
    for (const auto& [name, text] : moment_.texts) {
      const std::string manifest = join(parent_of(name), "manifest.cbor");
      if (name.starts_with("jobs/") && is_there(manifest)) stamps[manifest] = stamp(manifest);
    }
    return stamps;
  }

  // The models that it names are there as long as it is the same.
  void check_versions() const {
    const auto versions = moment_.texts.find("versions.json");
    if (versions == moment_.texts.end()) return;
    if (fs_.read(path("versions.json")).or_throw() != versions->second) {
      throw Changed{"versions.json"};
    }
  }

  Fs& fs_;
  const StateBackup& what_;
  Moment moment_;
  ArchiveWriter archive_;
  BackedUp done_;
};

}  // namespace

std::string role_of_state(Fs& fs, const std::string& state) {
  const std::string path = join(state, kState);
  if (!fs.exists(path)) {
    throw Error(state, " is no state of a Tuner or PipeStore: it has no ", kState);
  }
  const Result<Json> json = parse_state(fs.read(path).or_throw());
  if (!json.ok()) throw Error(path, ": ", json.status().message());
  return json->value("role", "");
}

BackedUp back_up(Fs& fs, Clock& clock, const StateBackup& what) {
  std::string changed;
  for (int i = 0; i < kCopies; ++i) {
    try {
      return StateCopy(fs, clock, what).run();
    } catch (const Changed& c) {
      changed = c.file;
    }
  }
  throw Error(join(what.state, changed), ": has changed in each of ", kCopies,
              " attempts to copy it with what belongs to it; back it up when less is done");
}

void check_restored(Fs& fs, const std::string& state) {
  const std::string labels = join(state, kLabels);
  if (fs.exists(labels)) sql::check_database(labels, sql::DatabaseCheck::kWhole).or_throw();
}

}  // namespace ndtrain::cli
