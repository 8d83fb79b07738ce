// Epochs of a training, with a row in the run directory after each and a checkpoint after those
// that are evaluated, and the models it leaves behind. Used by the fine-tuning on one machine and
// by the Tuner.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "framework/core/clock.h"
#include "framework/train/training.h"
#include "ndp/jobs/best_metric.h"
#include "ndp/jobs/model_file.h"
#include "ndp/jobs/progress.h"
#include "ndp/jobs/run_directory.h"
#include "ndp/jobs/transfer.h"

namespace ndtrain::ndp {

class TrainingLoop {
 public:
  // Keeps references. `fingerprint` is all that decides the result: a checkpoint of another one is
  // refused. `metric`: what the best epoch has most of, of a run the same each time.
  TrainingLoop(Fs& fs, RunDirectory& run, Training& training, Clock& clock, Progress& progress,
               std::string fingerprint, BestMetric metric = BestMetric::kTop1);

  // Goes on where last.safetensors stands; false when there is none. Throws Error when it is of
  // another training.
  bool restore();
  // The next epoch, or the rest of it, of `epochs` in all; evaluates on `val` (nullptr: not after
  // this epoch, which is trained again after a crash) and keeps the best that was evaluated; with
  // an empty `val`, the last. False: interrupted, and saved in the middle. True also where the
  // training went back (WentBack), to whatever epoch.
  bool train_epoch(Dataset& train, Dataset* val, int64_t epochs);
  // What was saved last; none before the first time. Throws Error.
  std::optional<Checkpoint> saved() const;
  // Back to the weights of the best epoch.
  void restore_best();

  int64_t best_epoch() const { return best_epoch_; }  // from 0; -1: none yet
  double seconds() const { return seconds_; }         // spent in train_epoch
  // When the first step of this process was done; zero before.
  std::chrono::nanoseconds first_step() const { return first_step_; }

 private:
  bool train_rest(Dataset& train, Dataset* val, int64_t epochs);
  void save(const std::string& name);

  Fs& fs_;
  RunDirectory& run_;
  Training& training_;
  Clock& clock_;
  Progress& progress_;
  std::string fingerprint_;
  BestMetric metric_;
  double best_score_ = -1;  // Checkpoint::best_top1, whatever the metric
  int64_t best_epoch_ = -1;
  double seconds_ = 0;
  std::chrono::nanoseconds first_step_{0};
};

// model.onnx, and behind a cut extractor.onnx and head.onnx too. `head` is the trained part.
// Returns the whole model as written.
ModelFile write_models(Fs& fs, const RunDirectory& run, const ModelFile& from,
                       const TransferModel& transfer, const Model& head,
                       const std::vector<std::string>& classes);

}  // namespace ndtrain::ndp
