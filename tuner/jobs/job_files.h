// What the state directory keeps of one job, so that a killed Tuner goes on with it:
//   job.json         the spec, and how far the job is
//   manifest.cbor    the photos, once all stores have said what they hold
//   closed.json      runs that are complete, and which photos they were closed without
//   numerics.cbor    which store's numerics the others' are compared with, until it is done
//   log.txt          what was said
//   quarantine.json  photos of complete runs that could not be read
//   notes.json       what people call it, and say of it
//   spool/           its rows, until it is done
//   survey/          the same of what was asked first, to choose how the job is done
//   production/      and of what the version in force was asked, to compare the job's own with it
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "ndp/jobs/notes.h"
#include "tuner/ingest/mixed_numerics.h"
#include "tuner/ingest/unreadable_photo.h"
#include "tuner/jobs/job_spec.h"
#include "tuner/jobs/manifest_file.h"

namespace ndtrain::tuner {
using namespace ndp;

enum class JobState { kQueued, kRunning, kDone, kFailed, kCancelled, kPaused };
std::string_view name_of(JobState state);

struct JobRecord {
  uint64_t id = 0;
  JobSpec spec;
  JobState state = JobState::kQueued;
  std::string message;                            // why it failed, or what it was done without
  std::string result = "{}";                      // JSON
  int64_t submitted = 0, started = 0, ended = 0;  // Unix seconds; 0: not yet
  Notes notes = {};                               // as JobFiles::save_notes() keeps them
  bool readable = true;                           // false: nothing but the id and why is known
  bool wrong_rows = false;                        // what it has of stores goes before it is resumed
  bool start_now = false;  // it waits for no store; people say so to this process, nothing is kept

  // Not over: a paused one waits for a person.
  bool open() const {
    return state == JobState::kQueued || state == JobState::kRunning || state == JobState::kPaused;
  }
};

class JobFiles {
 public:
  JobFiles(Fs& fs, std::string directory) : fs_(fs), directory_(std::move(directory)) {}

  const std::string& directory() const { return directory_; }

  Status save(const JobRecord& record);  // but for its notes
  Status save_notes(const Notes& notes);
  Result<JobRecord> load() const;  // kCorrupt, kNotFound

  Status save_manifest(const Manifest& manifest, const std::vector<std::string>& stores);
  // None yet; kCorrupt. What there is of each photo is made of `memory`.
  Result<std::optional<SavedManifest>> load_manifest(
      std::pmr::memory_resource* memory = std::pmr::new_delete_resource()) const;
  // What is in its file, without the checksum, which is right; none yet.
  Result<std::optional<std::string>> manifest_bytes() const;
  std::string manifest_path() const;

  Status save_first(const MixedNumerics::First& first);
  Result<std::optional<MixedNumerics::First>> load_first() const;  // none yet; kCorrupt

  // The photos that complete runs were closed without, and which runs those are.
  struct Closed {
    std::vector<uint32_t> runs;
    std::vector<uint64_t> absent;
  };
  Status close_run(uint32_t run, std::span<const uint64_t> absent);
  Result<Closed> closed() const;

  Status log(const std::string& line);
  Result<std::vector<std::string>> log() const;  // its lines; none yet
  // Photos that could not be read; paths and reasons are kept as plain text.
  Status save_quarantine(std::span<const UnreadablePhoto> photos);
  Result<std::vector<UnreadablePhoto>> load_quarantine() const;  // none; kCorrupt

  // Photos leave the files of a job that is not in progress. One that is not done, and was about
  // some of them, begins anew.
  Status forget(const std::set<Digest>& photos, bool done);
  Status remove_asked_before();  // of such a job: what its own rows were asked after
  // A job that is not in progress begins anew, with none of the rows that it has of stores.
  Status begin_anew(const std::string& why);
  // The rows of a job that is done, and by what they were compared; what cannot be removed stays.
  void remove_rows();
  // Of one that has trained: its model, whole and in parts, and its checkpoints.
  Status remove_models();
  // All there is; its record goes last, so that what was cut short is removed again.
  Status remove();

 private:
  std::string file(const char* name) const { return join(directory_, name); }
  Status save_cbor(const char* name, std::string bytes);                 // and a checksum
  Result<std::optional<std::string>> load_cbor(const char* name) const;  // kCorrupt
  std::vector<JobFiles> asked_before() const;
  Status remove_all(const char* name);  // a file, or those of a directory
  Status begin_anew(const std::string& why, bool done);
  Status forget_quarantined(const std::set<Digest>& photos);

  Fs& fs_;
  std::string directory_;
};

}  // namespace ndtrain::tuner
