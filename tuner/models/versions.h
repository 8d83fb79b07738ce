// The model versions that the Tuner has published, in STATE/versions.json, and per task (a
// classifier, see ndp/labels/label_db.h) what aliases point to: `production` is in force on the
// stores, `candidate` is the newest that may become it; and what was in force before. Numbers count
// through all tasks. Thread-safe. What changes the file is durable on return, or did not happen.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/hash.h"
#include "framework/core/json_fwd.h"
#include "ndp/jobs/notes.h"
#include "ndp/labels/label_db.h"

namespace ndtrain::tuner {

inline constexpr const char* kProduction = "production";
inline constexpr const char* kCandidate = "candidate";

// The files of a model that runs on stores, and what it tells apart.
struct PublishedModel {
  uint64_t version = 0;  // from 1
  std::string task = std::string(ndp::kDefaultTask);
  uint64_t parent = 0;  // what was in force of its task when it was published; 0: nothing
  Digest content{};     // of the whole: ModelFile::id()
  Digest extractor{};   // SHA-256 of the files
  Digest head{};        // equal to the extractor: the whole model is one file
  std::vector<std::string> classes;
  int64_t created = 0;         // Unix seconds
  std::string metrics = "{}";  // JSON
  uint64_t job = 0;            // that trained it
  Digest photos{};             // it was trained on: Manifest::digest(); the job has the manifest
  ndp::Notes notes = {};       // what people call it, and say of it

  bool has_file(const Digest& file) const { return file == extractor || file == head; }
};

// None of a model that was not published.
std::optional<int64_t> number_of(const PublishedModel& m);
// What people call it (see version_name.h): "version 3 (5f2a0c91d4e7)".
std::string text_of(const PublishedModel& m);
std::string text_of(const std::optional<PublishedModel>& m);  // "no version"
// Where texts say of which task something is: " of the task NAME"; "" of the default one.
std::string of_task(std::string_view task);

// By which what others still have of the task is known for it, also when a task of its name was
// begun anew.
struct RemovedTask {
  int64_t time = 0;    // when it was; Unix seconds
  uint64_t last = 0;   // the last version there was by then, of any task
  bool labels = true;  // the label database may have some still

  bool had(uint64_t version) const { return version > 0 && version <= last; }
};

class Versions {
 public:
  // How many promotions the history has, the newest.
  static constexpr size_t kHistory = 1000;

  // Reads the present format and those before, in which all is of the task `default`; in a file
  // without a history each version was in force before those that took its place. Throws Error when
  // it cannot.
  Versions(Fs& fs, std::string path);

  std::vector<PublishedModel> all() const;  // oldest first
  std::vector<std::string> tasks() const;   // that have had versions, by name
  std::optional<PublishedModel> in_force(std::string_view task) const;
  // Whose new photos the task labels: those that its jobs were for.
  std::set<std::string> collections(std::string_view task) const;
  Status add_collection(const std::string& task, const std::string& collection);
  // The task's versions go, whatever points to them, and its history; files that no other task's
  // versions have become garbage. What is left of it is a RemovedTask.
  Status remove_task(const std::string& task, int64_t time);
  std::map<std::string, RemovedTask> removed_tasks() const;
  std::optional<RemovedTask> removed(std::string_view task) const;  // also one that was begun anew
  bool is_gone(std::string_view task) const;  // removed, and nobody has begun it anew
  Status labels_are_gone(const std::string& task);
  std::optional<PublishedModel> find(uint64_t version) const;
  std::optional<PublishedModel> of_job(uint64_t job) const;
  std::map<std::string, uint64_t> aliases(std::string_view task) const;
  std::vector<std::string> aliases_of(uint64_t version) const;

  // Gives it the next number, which no other ever has, and makes it the candidate of its task, and
  // what is in force if it is to be.
  Result<PublishedModel> add(PublishedModel model, bool production);
  // The alias of the version's task. Throws Error when there is no such version or alias.
  Status point(const std::string& alias, uint64_t version);
  // Throws Error when there is no such version, and as changed_notes().
  Result<PublishedModel> change_notes(uint64_t version, const ndp::NotesChange& change);
  // What was in force before what is, by the history of promotions; it may have been removed.
  std::optional<uint64_t> in_force_before(std::string_view task) const;
  // Takes the task's last promotion back: what was in force before it is again, and once more goes
  // back further. Throws Error when nothing was, or when it was removed.
  Result<PublishedModel> roll_back(std::string_view task);
  // Not one that an alias points to: throws Error. Its files that no other version has become
  // garbage.
  Status remove(uint64_t version);
  std::vector<Digest> garbage() const;
  Status forget_garbage(std::span<const Digest> removed);

 private:
  struct Task {
    std::map<std::string, uint64_t> aliases;
    std::vector<uint64_t> promotions;  // versions, oldest first; the last is in force
    std::set<std::string> collections;

    void put_in_force(uint64_t version);
  };
  struct State {
    std::vector<PublishedModel> all;
    std::map<std::string, Task, std::less<>> tasks;
    std::map<std::string, RemovedTask, std::less<>> removed;
    uint64_t next = 1;
    std::vector<Digest> garbage;

    const PublishedModel* find(uint64_t version) const;
    void drop_files(const PublishedModel& gone);  // that none of `all` has
    std::vector<uint64_t> promotions_by_parents(uint64_t in_force) const;
  };

  static State read(const std::string& text);
  static Task read_task(const Json& json, const State& state, const std::string& name);
  static std::string write(const State& state);
  Status keep(State state);  // with the mutex held

  Fs& fs_;
  std::string path_;
  mutable std::mutex mutex_;
  State state_;
};

}  // namespace ndtrain::tuner
