// What a training leaves behind:
//   args.toml env.json classes.txt       what was asked for, and on what machine
//   metrics.jsonl results.csv events.*   one row per epoch; a resume never rewrites earlier rows
//   best.safetensors last.safetensors    checkpoints
//   rank0-epoch1-step0.safetensors       by ranks that send some of their gradients: state_files.h
//   model.onnx extractor.onnx head.onnx  the result
//   parallel_plan.txt parallel_profile.json  by ranks: exchange_files.h
//   confusion.csv quarantine.csv report.html log.txt; rates.log with --controller
//   notes.json                           what people say of it: notes.h
//   lock                                 held by the one process that writes here
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "framework/core/json_fwd.h"

namespace ndtrain::ndp {

struct EpochRow {
  int64_t epoch = 0;  // from 1, as people count
  double train_loss = 0, train_top1 = 0;
  std::optional<double> train_top5;  // earlier versions did not count it
  struct Validation {
    double loss = 0, top1 = 0, top5 = 0;
  };
  std::optional<Validation> val;  // after the epochs that were followed by one
  double lr = 0, seconds = 0;
};

class RunDirectory {
 public:
  // Makes the directory if it is not there, unless it throws Error: when it holds a run already and
  // `resume` is false, none and `resume` is true, when another process writes here, or when it
  // cannot be written.
  RunDirectory(Fs& fs, Clock& clock, std::string path, bool resume);

  // A start that has failed leaves nothing behind: what this has written goes, and the directories
  // that it has made. Not of a run that was resumed. What cannot be removed stays.
  void abandon();

  std::string file(const std::string& name) const { return join(path_, name); }
  const std::string& path() const { return path_; }

  // Replaces a file, atomically. Throws Error (a full disk, say) with what to do.
  void write(const std::string& name, std::string_view bytes);
  // Appends an epoch's row to metrics.jsonl, results.csv and the event file, unless the row is
  // there.
  void add_epoch(const EpochRow& row);
  const std::vector<EpochRow>& epochs() const { return epochs_; }
  std::string env_json() const;

 private:
  void append(const std::string& name, std::string_view bytes);
  void add_metrics(std::string_view line);
  bool is_there(const std::string& name) const;  // throws Error
  void check_use() const;  // throws Error where a run is and should not be, or the other way round
  void make();             // the directory, and what it lies in
  void lock();             // throws Error

  Fs& fs_;
  Clock& clock_;
  std::string path_;
  const bool resume_;
  std::unique_ptr<FileLock> lock_;
  std::vector<std::string> made_;  // directories, the outermost first
  std::set<std::string> written_;  // names
  std::vector<EpochRow> epochs_;
  std::string events_name_;
};

Json to_json(const EpochRow& row);
std::string metrics_line(const EpochRow& row);  // of metrics.jsonl, with a checksum in it
// Rows of metrics.jsonl. A last line that is torn is left out, and so are those that are not as
// they were written, which `damaged` counts; lines of earlier programs have no checksum.
std::vector<EpochRow> parse_metrics(std::string_view jsonl, int64_t* damaged = nullptr);

}  // namespace ndtrain::ndp
