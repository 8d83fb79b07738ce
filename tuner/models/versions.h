// The model versions that the Tuner has published, in STATE/versions.json, what aliases point to:
// `production` is in force on the stores, `candidate` is the newest that may become it; and what
// was in force before. Thread-safe. What changes the file is durable on return, or did not happen.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/hash.h"
#include "ndp/jobs/notes.h"

namespace ndtrain::tuner {

inline constexpr const char* kProduction = "production";
inline constexpr const char* kCandidate = "candidate";

// The files of a model that runs on stores, and what it tells apart.
struct PublishedModel {
  uint64_t version = 0;  // from 1
  uint64_t parent = 0;   // what was in force when it was published; 0: nothing
  Digest content{};      // of the whole: ModelFile::id()
  Digest extractor{};    // SHA-256 of the files
  Digest head{};         // equal to the extractor: the whole model is one file
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

class Versions {
 public:
  // How many promotions the history has, the newest.
  static constexpr size_t kHistory = 1000;

  // Reads the present format and the one before, an array; in a file without a history each version
  // was in force before those that took its place. Throws Error when it cannot.
  Versions(Fs& fs, std::string path);

  std::vector<PublishedModel> all() const;  // oldest first
  std::optional<PublishedModel> in_force() const;
  std::optional<PublishedModel> find(uint64_t version) const;
  std::optional<PublishedModel> of_job(uint64_t job) const;
  std::map<std::string, uint64_t> aliases() const;
  std::vector<std::string> aliases_of(uint64_t version) const;

  // Gives it the next number, which no other ever has, and makes it the candidate, and what is in
  // force if it is to be.
  Result<PublishedModel> add(PublishedModel model, bool production);
  // Throws Error when there is no such version or alias.
  Status point(const std::string& alias, uint64_t version);
  // Throws Error when there is no such version, and as changed_notes().
  Result<PublishedModel> change_notes(uint64_t version, const ndp::NotesChange& change);
  // What was in force before what is, by the history of promotions; it may have been removed.
  std::optional<uint64_t> in_force_before() const;
  // Takes the last promotion back: what was in force before it is again, and once more goes back
  // further. Throws Error when nothing was, or when it was removed.
  Result<PublishedModel> roll_back();
  // Not one that an alias points to: throws Error. Its files that no other version has become
  // garbage.
  Status remove(uint64_t version);
  std::vector<Digest> garbage() const;
  Status forget_garbage(std::span<const Digest> removed);

 private:
  struct State {
    std::vector<PublishedModel> all;
    std::map<std::string, uint64_t> aliases;
    uint64_t next = 1;
    std::vector<Digest> garbage;
    std::vector<uint64_t> promotions;  // versions, oldest first; the last is in force

    const PublishedModel* find(uint64_t version) const;
    void put_in_force(uint64_t version);
    std::vector<uint64_t> promotions_by_parents() const;
  };

  static State read(const std::string& text);
  static std::string write(const State& state);
  Status keep(State state);  // with the mutex held

  Fs& fs_;
  std::string path_;
  mutable std::mutex mutex_;
  State state_;
};

}  // namespace ndtrain::tuner
