// What a person asks of the Tuner, as `ndtrain job submit` sends it and as the state directory
// keeps it: one JSON object. Unknown keys and values out of range are refused by name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "framework/core/dtype.h"
#include "framework/core/limits.h"
#include "framework/train/trainer.h"
#include "ndp/jobs/best_metric.h"
#include "ndp/jobs/sampling.h"
#include "ndp/jobs/slow_link_spec.h"
#include "ndp/jobs/view_rule.h"
#include "ndp/labels/label_db.h"
#include "ndp/photos/augment.h"
#include "tuner/jobs/store_choice.h"

namespace ndtrain::tuner {

enum class JobKind { kFinetune, kRelabel, kEvaluate, kRefine };

// Where the work is done; what travels follows from it.
enum class JobMode {
  kNdpipe,   // stores extract and send features
  kTypical,  // stores send photo files, the Tuner does everything
  kSrvP,     // stores decode and send u8 crops
  kSrvC,     // the same, compressed
  kIdeal,    // the Tuner has the photos itself: `photos`
};

// When a new version is put in force. One that is not waits as the candidate.
enum class Promote {
  kAlways,
  kNever,
  kRule,  // the first one, then what is better than what is in force: see promotion.h
};

// Which photos a relabelling is for: see CurrentLabels.
enum class RelabelOnly { kAll, kStale, kMissing };

std::string_view name_of(JobKind kind);
std::string_view name_of(JobMode mode);
std::string_view name_of(RelabelOnly only);

struct JobSpec {
  JobKind kind = JobKind::kFinetune;
  std::string model;  // SHA-256 of an ONNX file on the Tuner, hex; "": the version in force
  StoreSelection stores = {};  // JSON: "all", a number, or a list of names
  double store_timeout = 30;   // seconds that one which is away is waited for before the job begins
  double lost_after = 600;     // seconds that one may be away when it has begun
  bool allow_missing = false;  // go on without what only lost stores have
  // Whose version in force it begins with or is about, and whose next one it publishes; whose
  // labels people have said, or are made.
  std::string task = std::string(ndp::kDefaultTask);
  std::string collection = std::string(ndp::kDefaultCollection);  // of its photos and labels
  bool deterministic = false;
  uint64_t seed = 0;
  // In which the frozen network computes: f32, bf16, int8, or auto, bf16 where all stores are
  // faster with it; "": as the model declares.
  std::string precision = {};
  double max_drop = 0.5;  // points of top-1 that it may cost

  // kFinetune
  JobMode mode = JobMode::kNdpipe;
  std::string photos;  // of kIdeal: a directory on the Tuner
  std::string labels;  // what they show: a CSV file,class; "": their directories
  uint32_t runs = 1;
  TrainerConfig trainer = {};  // of each run; `seed` is the job's; `shards`: at least `tuners`
  int tuners = 1;              // that train together, this one among them
  // By several: dp, each does its shards of every step; pipeline, each is a stage; hybrid, a stage
  // may be on several; auto, whichever is predicted to be fastest.
  std::string parallel = "dp";
  std::string pipeline_schedule = "auto";                // of stages: else one of pipeline_rules()
  int64_t micro_batches = limits::kPlannedMicroBatches;  // of a step by stages, at most
  // Of shards: the schedule, see make_comm_plan(); or sparse, local, diloco or powersgd, as
  // `slow_link` has it.
  std::string sync = "ddp";
  ndp::SlowLinkSpec slow_link = {};
  ndp::BestMetric best = ndp::BestMetric::kTop1;  // of validation photos: which epoch is kept
  int64_t patience = 0;    // of one run: epochs without a better one before it stops; 0: never
  bool calibrate = false;  // by a temperature (ndp/jobs/temperature.h), where photos validate
  // Photos are drawn, and mixed, within a shard: see as_trained().
  ndp::Sampling sampling = {};
  ndp::Augmentation augmentation =
      {};             // of features: mixup; of photos in front of them, by `views`
  int64_t views = 0;  // of each photo to train on, in mode kNdpipe; 0: the photos as they are
  double val_split = 0.2;
  bool group_duplicates = false;  // see ManifestRules
  std::string head = "keep";  // keep | linear | grow: the model's classes stay, new ones are added
  std::string freeze = "auto";
  std::string cut = {};  // earlier than where training begins: see prepare_transfer()
  std::string why = {};  // the mode, runs and cut: what a planner says of them,
  std::map<std::string, double> predicted = {};  // and of each of kPredictedStages, where it does
  DType feature_dtype = DType::kF16;
  bool reset_optimizer = false;  // at the beginning of each run
  bool all_runs = false;         // train on all runs so far, not on this one alone
  bool damp = false;             // learning rate times (N - run/2)/N
  int64_t memory = 0;            // bytes of features held in memory; 0: half of what is free
  int64_t disk = 0;              // bytes of features on disk; 0: a tenth of the volume
  bool publish = true;
  Promote promote = Promote::kRule;

  // kRelabel, kEvaluate
  uint32_t top_k = 5;
  RelabelOnly only = RelabelOnly::kAll;
  // Of a relabelling: only what it would do, from a sample. Of a refinement: issues are not kept.
  // Of a fine-tuning with SlowLinkSpec::controller: decisions are logged alone.
  bool dry_run = false;

  // What stores say of their photos, by folders say, is of the default task; in mode ideal the job
  // names the photos, and what they show.
  bool takes_labels_of_holders() const {
    return mode == JobMode::kIdeal || task == ndp::kDefaultTask;
  }

  ndp::ViewRule view_rule() const { return {augmentation, seed, views}; }

  std::string text() const;  // JSON
};

// Throws Error naming the key.
JobSpec parse_job_spec(std::string_view json);

// The same job with what does not decide what is computed changed: of `json`'s keys stores,
// store_timeout, lost_after and allow_missing, for a fine-tuning memory, disk, tuners and sync too;
// not sync from or to one over slow links. Throws Error naming any other.
JobSpec changed(const JobSpec& spec, std::string_view json);

}  // namespace ndtrain::tuner
