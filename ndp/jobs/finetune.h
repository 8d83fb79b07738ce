// Fine-tuning on one machine: scan, cut, extract (or take from the cache), train behind the cut,
// write the model back.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "ndp/jobs/augmented_photos.h"
#include "ndp/jobs/best_metric.h"
#include "ndp/jobs/database_labels.h"
#include "ndp/jobs/exchange_choice.h"
#include "ndp/jobs/features.h"
#include "ndp/jobs/job_training.h"
#include "ndp/jobs/low_precision.h"
#include "ndp/jobs/model_file.h"
#include "ndp/jobs/notes.h"
#include "ndp/jobs/photo_rows.h"
#include "ndp/jobs/run_directory.h"
#include "ndp/jobs/run_settings.h"
#include "ndp/jobs/sampling.h"

namespace ndtrain::ndp {

struct FinetuneConfig {
  std::string data, model, out;
  std::string labels = {};             // a CSV file,class; "": DATA is folders of classes
  DatabaseLabelsConfig database = {};  // instead of both: labels of a label database
  Sampling sampling = {};              // of photos to train on
  double val_split = -1;          // < 0: DATA/val, or a fifth of the photos where there is none
  bool group_duplicates = false;  // see keep_duplicates_together()
  std::string freeze = "auto";    // see trainable_parameters()
  std::string head = "keep";      // see prepare_transfer()
  JobTrainingConfig how = {};
  std::optional<ExchangeChoice> choice = {};  // by ranks: instead of a schedule, if one is better
  Augmentation augmentation = {};  // of training photos; of features, where some are frozen, mixup
  int64_t views = 0;               // of each training photo, where a part is frozen: see PhotoViews
  BestMetric best = BestMetric::kTop1;  // of validation photos: which epoch is kept
  int64_t patience = 0;                 // epochs without a better one before stopping; 0: never
  DType cache_dtype = DType::kF16;
  PrecisionConfig precision = {};  // of the frozen part
  std::string cache = {};          // "": default_cache_directory()
  int64_t memory_limit = 0;  // bytes of features or crops in memory; 0: half of the free memory
  int64_t extract_batch = 32;
  bool fast_decode = false;
  bool calibrate = false;  // by a temperature (temperature.h), where there are validation photos
  bool resume = false;
  // Every flag that decides the result, `epochs` among them, as it holds: for args.toml.
  Settings given = {};
  std::string version = {};                 // of the program
  NotesChange notes = {};                   // of the run; they decide nothing
  std::optional<RunSettings> repeats = {};  // what this is meant to repeat; what differs is said
};

struct FinetuneResult {
  std::string model;  // path of model.onnx; "": none was written
  int64_t epochs = 0, best_epoch = 0;
  // Of the best epoch, on validation photos.
  double top1 = 0, top5 = 0, loss = 0, macro_f1 = 0;
  double temperature = 0;  // that the classifier was divided by; 0: it was not
  int64_t train_photos = 0, val_photos = 0, quarantined = 0, skipped = 0, classes = 0;
  int64_t unlabelled = 0;  // photos that the database says nothing about
  int64_t parameters = 0;
  ExtractionReport extraction;
  int64_t feature_bytes = 0;  // per photo
  double mean_photo_bytes = 0;
  double setup_s = 0, extract_s = 0, train_s = 0, first_step_s = 0, total_s = 0;
  std::vector<int> lost_ranks = {};  // that the others have gone on without
  JobTraining::Figures figures = {};
  ChosenExchange exchange = {};  // of FinetuneConfig::choice, of a run that begins
  bool interrupted = false;      // stopped on request; --resume goes on
};

// Throws Error. `ranks`: others make the same call, on the same model and photos with the same
// settings, each with an `out` of its own; all write the same there. It has one call in flight. A
// rank that is lost is a RankLost of the others, who can be resumed from rank 0's files, unless
// they regroup: while they train, and another than rank 0 is lost.
FinetuneResult finetune(const FinetuneConfig& config, const Device& device, Fs& fs, Clock& clock,
                        Progress& progress, std::unique_ptr<Communicator> ranks = nullptr);

}  // namespace ndtrain::ndp
