// What a training has left behind (run_directory.h), as its files say: of `ndtrain train`, and of a
// Tuner's job, whose run directory is jobs/N/run of the Tuner's state.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/json_fwd.h"
#include "ndp/jobs/notes.h"
#include "ndp/jobs/run_directory.h"
#include "ndp/jobs/run_settings.h"

namespace ndtrain::ndp {

enum class RunState {
  kTraining,     // a process has its lock
  kInterrupted,  // or failed: some of its epochs or its model are lacking
  kDone,
};
const char* name_of(RunState state);

struct Confusion {
  std::vector<std::string> classes;
  std::vector<int64_t> counts;  // [classes, classes], rows are the truth
};

struct RunSummary {
  std::string path;
  Notes notes;
  uint64_t job = 0;      // of a Tuner; 0: none
  RunSettings settings;  // of a job: the scalars of its spec, called as the flags are
  int64_t started = 0;   // Unix seconds; 0: not known
  std::string host;
  RunState state = RunState::kInterrupted;
  std::vector<EpochRow> epochs;
  int64_t epochs_asked = 0;          // 0: not known
  std::optional<EpochRow> best;      // with the highest top-1, the first of them
  std::vector<std::string> classes;  // of `confusion`
  std::vector<int64_t> confusion;    // [classes, classes], rows are the truth; or empty

  std::string model() const;  // for people: as it was named, or the beginning of its id
};

bool is_run(Fs& fs, const std::string& directory);

// kNotFound: it is no run directory, and how to find some; kCorrupt. Changes nothing there.
Result<RunSummary> read_run(Fs& fs, const std::string& directory);

// Of a run's confusion.csv; empty where there is none yet. kCorrupt.
Result<Confusion> read_confusion(Fs& fs, const std::string& directory);

// `directory` itself if it is a run, else those below it, in the order of their paths; none is
// looked for inside another, nor in directories that begin with a dot. Throws Error when it cannot
// be listed; what is below and cannot be is passed over.
std::vector<std::string> find_runs(Fs& fs, const std::string& directory);

Json to_json(const RunSummary& run);  // without epochs, settings and classes
Json settings_json(const RunSettings& settings);
Json epochs_json(const std::vector<EpochRow>& epochs);

}  // namespace ndtrain::ndp
