#include "tuner/jobs/job_spec_check.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "framework/core/error.h"
#include "framework/core/hash.h"
#include "framework/core/limits.h"
#include "framework/parallel/plan_by_sizes.h"
#include "framework/pipeline/planner/pipeline_rules.h"
#include "ndp/wire/message_limits.h"
#include "tuner/jobs/slow_link_job.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr double kLongest = 366 * 86'400;  // seconds
constexpr std::string_view kOfShards =
    ": photos are drawn and mixed within a shard, and stages may share none; take parallel dp, or "
    "leave it away";

void demand(bool ok, const char* key, const auto& value, const std::string& what) {
  if (!ok) throw Error("job: ", key, " ", value, ": ", what);
}

void demand_optimizer(const OptimizerConfig& o) {
  try {
    o.check();
  } catch (const Error& e) {
    throw Error("job: ", e.what());
  }
}

void demand_schedule(const std::string& name) {
  try {
    static_cast<void>(goes_by_sizes(name));
  } catch (const Error& e) {
    throw Error("job: sync ", name, ": ", e.what());
  }
}

void demand_slow_link(const JobSpec& s) {
  if (!is_slow_link(s.sync)) return refuse_slow_link_keys(s);
  const std::string with = "job: sync " + s.sync;
  if (s.tuners < 2) {
    throw Error(with, ": it is between Tuners; take tuners 2 or more, or leave it away");
  }
  if (s.parallel != "dp") {
    throw Error(with, " with parallel ", s.parallel,
                ": it is of Tuners that share the photos; leave one away");
  }
  if (s.trainer.optimizer.ema > 0) {
    throw Error("job: ema ", s.trainer.optimizer.ema, " with sync ", s.sync,
                ": an average is of Tuners that take every step alike; leave it away, or take sync "
                "ddp");
  }
  static_cast<void>(slow_link_of(s));
}

// An evaluation is of all photos, and its result is all that it changes.
void demand_evaluation(const JobSpec& s) {
  if (s.kind != JobKind::kEvaluate) return;
  demand(!s.dry_run, "dry_run", "true", "of kind eval: it changes nothing; leave it away");
  demand(s.only == RelabelOnly::kAll, "only", name_of(s.only),
         "of kind eval: it is of all photos; leave it away");
}

void demand_refinement(const JobSpec& s) {
  if (s.kind != JobKind::kRefine || s.model.empty()) return;
  throw Error("job: model ", s.model.substr(0, 12),
              " of kind refine: photos are compared by the features of the version in force; leave "
              "it away");
}

void demand_dry_run(const JobSpec& s) {
  if (!s.dry_run || s.kind != JobKind::kFinetune || s.slow_link.controller) return;
  throw Error(
      "job: dry_run true of kind finetune: it is of a relabelling, a refinement, or of a "
      "fine-tuning "
      "with controller; leave it away, or add that");
}

void demand_sampling(const JobSpec& s) {
  try {
    s.sampling.check();
  } catch (const Error& e) {
    throw Error("job: ", e.what());
  }
  if (s.sampling.draws() && s.parallel != "dp") {
    throw Error("job: sampling and truth_share with parallel ", s.parallel, kOfShards);
  }
}

void demand_augmentation(const JobSpec& s) {
  demand(s.views >= 0 && s.views <= wire::kMostViews, "views", s.views,
         "from 0, the photos as they are, to " + std::to_string(wire::kMostViews));
  try {
    ndp::check_augmentation(s.augmentation, s.views, /*frozen=*/true);
  } catch (const Error& e) {
    throw Error("job: ", e.what());
  }
  if (s.views > 0 && s.mode != JobMode::kNdpipe) {
    throw Error("job: views ", s.views, " with mode ", name_of(s.mode),
                ": views are made where features are, by stores; take mode ndpipe, or leave them "
                "away");
  }
  if (s.augmentation.mixes() && s.parallel != "dp") {
    throw Error("job: augment ", ndp::name_of(s.augmentation), " with parallel ", s.parallel,
                kOfShards);
  }
}

void demand_patience(const JobSpec& s) {
  demand(s.patience >= 0, "patience", s.patience, "at least 0");
  demand(s.patience == 0 || s.runs == 1, "patience", s.patience,
         "it ends a training of one run; with " + std::to_string(s.runs) +
             " the photos of later ones would not be trained on");
}

void demand_parallel(const JobSpec& s) {
  constexpr std::string_view kWays[] = {"dp", "pipeline", "hybrid", "auto"};
  if (std::ranges::count(kWays, s.parallel) == 0) {
    throw Error("job: parallel ", s.parallel, ": there are dp, pipeline, hybrid and auto");
  }
  if (s.parallel == "dp") return;
  try {
    pipeline_rules(s.pipeline_schedule, {});
  } catch (const Error& e) {
    throw Error("job: pipeline_schedule ", s.pipeline_schedule, ": ", e.what());
  }
  demand(s.micro_batches >= 1 && s.micro_batches <= limits::kPlannedMicroBatches, "micro_batches",
         s.micro_batches, "from 1 to " + std::to_string(limits::kPlannedMicroBatches));
  const std::string by = "job: parallel " + s.parallel + ": ";
  if (s.tuners < 2)
    throw Error(by, "it takes several Tuners, --tuners 2 or more; else leave it away");
  if (s.trainer.accumulate > 1) {
    throw Error(by, "the parts of a step are the plan's micro-batches; leave accumulate ",
                s.trainer.accumulate, " away");
  }
  if (s.parallel != "auto" && s.trainer.optimizer.clip_norm > 0) {
    throw Error(by,
                "stages do not clip gradients, whose norm is over all of them; leave clip_norm ",
                s.trainer.optimizer.clip_norm, " away");
  }
}

void demand_name(std::string_view key, const std::string& name) {
  if (!wire::is_set_name(name)) {
    throw Error("job: ", key, " '", name, "': from 1 to ", wire::kSetNameBytes,
                " bytes of UTF-8 without control characters");
  }
}

}  // namespace

void check_job_spec(const JobSpec& s) {
  demand_name("task", s.task);
  demand_name("collection", s.collection);
  const TrainerConfig& t = s.trainer;
  demand(s.store_timeout >= 0 && s.store_timeout <= kLongest, "store_timeout", s.store_timeout,
         "from 0 to 31622400 seconds");
  demand(s.lost_after > 0 && s.lost_after <= kLongest, "lost_after", s.lost_after,
         "above 0, to 31622400 seconds");
  demand(s.runs >= 1 && s.runs <= 1000, "runs", s.runs, "from 1 to 1000");
  demand(t.epochs >= 1 && t.epochs <= 1'000'000, "epochs", t.epochs, "from 1 to 1000000");
  demand(t.batch >= 1 && t.batch <= 1 << 20, "batch", t.batch, "from 1 to 1048576");
  demand(t.accumulate >= 1 && t.accumulate <= t.batch, "accumulate", t.accumulate,
         "from 1 to the photos of a batch");
  demand(s.tuners >= 1 && s.tuners <= limits::kRanks, "tuners", s.tuners, "from 1 to 64");
  demand(t.shards >= s.tuners && t.shards <= t.batch, "shards", t.shards,
         "from the number of tuners to the photos of a batch");
  if (!is_slow_link(s.sync)) demand_schedule(s.sync);
  demand_slow_link(s);
  demand_evaluation(s);
  demand_refinement(s);
  demand_dry_run(s);
  demand_parallel(s);
  demand_sampling(s);
  demand_augmentation(s);
  demand_patience(s);
  demand(t.schedule.lr > 0, "lr", t.schedule.lr, "above 0");
  demand_optimizer(t.optimizer);
  demand(s.val_split >= 0 && s.val_split < 1, "val_split", s.val_split, "from 0 to below 1");
  demand(!s.group_duplicates || s.mode != JobMode::kIdeal, "group_duplicates", "true",
         "of mode ideal: stores say what photos look like, and it asks none; leave one away");
  demand(s.head == "keep" || s.head == "linear" || s.head == "grow", "head", s.head,
         "there are keep, linear and grow");
  const bool known = s.precision.empty() || s.precision == "auto" || s.precision == "f32" ||
                     s.precision == "bf16" || s.precision == "f16" || s.precision == "int8";
  demand(known, "precision", s.precision, "there are f32, bf16, f16, int8 and auto");
  demand(s.max_drop >= 0, "max_drop", s.max_drop, "at least 0 points");
  demand(s.precision.empty() || !s.model.empty() || s.kind == JobKind::kFinetune, "precision",
         s.precision,
         "the version in force computes in the precision it was trained in; give a model");
  demand(s.memory >= 0, "memory", s.memory, "not negative");
  demand(s.disk >= 0, "disk", s.disk, "not negative");
  demand(s.top_k >= 1 && s.top_k <= 1000, "top_k", s.top_k, "from 1 to 1000");
  demand(s.mode != JobMode::kIdeal || !s.photos.empty(), "photos", "''",
         "mode ideal needs a directory of photos on the Tuner");
  if (!s.model.empty()) (void)digest_from_hex(s.model);
}

}  // namespace ndtrain::tuner
