#include "tuner/jobs/job_spec.h"

#include <algorithm>
#include <utility>

#include "framework/core/hash.h"
#include "framework/core/json.h"
#include "framework/core/json_input.h"
#include "framework/core/limits.h"
#include "framework/parallel/plan_by_sizes.h"
#include "framework/pipeline/planner/pipeline_rules.h"
#include "framework/train/name_pattern.h"
#include "ndp/wire/message_limits.h"
#include "tuner/jobs/job_reader.h"
#include "tuner/jobs/slow_link_job.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr double kLongest = 366 * 86'400;  // seconds
constexpr std::string_view kOfShards =
    ": photos are drawn and mixed within a shard, and stages may share none; take parallel dp, or "
    "leave it away";
constexpr double kLostAfter = 600;  // is not written: older Tuners do not know the key

constexpr Names<JobKind, 4> kKinds = {{{JobKind::kFinetune, "finetune"},
                                       {JobKind::kRelabel, "relabel"},
                                       {JobKind::kEvaluate, "eval"},
                                       {JobKind::kRefine, "refine"}}};
constexpr Names<RelabelOnly, 3> kOnly = {{{RelabelOnly::kAll, "all"},
                                          {RelabelOnly::kStale, "stale"},
                                          {RelabelOnly::kMissing, "missing"}}};
constexpr Names<JobMode, 5> kModes = {{{JobMode::kNdpipe, "ndpipe"},
                                       {JobMode::kTypical, "typical"},
                                       {JobMode::kSrvP, "srv-p"},
                                       {JobMode::kSrvC, "srv-c"},
                                       {JobMode::kIdeal, "ideal"}}};
constexpr Names<OptimizerConfig::Kind, 4> kOptimizers = {
    {{OptimizerConfig::Kind::kSgd, "sgd"},
     {OptimizerConfig::Kind::kAdam, "adam"},
     {OptimizerConfig::Kind::kAdamW, "adamw"},
     {OptimizerConfig::Kind::kRmsProp, "rmsprop"}}};
constexpr Names<DType, 3> kComputeTypes = {
    {{DType::kF32, "f32"}, {DType::kBF16, "bf16"}, {DType::kF16, "f16"}}};
constexpr Names<bool, 2> kSamplings = {{{false, "shuffle"}, {true, "balanced"}}};
constexpr Names<DType, 2> kFeatureTypes = {{{DType::kF16, "f16"}, {DType::kF32, "f32"}}};

void take_optimizer(JobReader& r, OptimizerConfig& o) {
  r.take("opt", kOptimizers, o.kind);
  r.take("momentum", o.momentum);
  r.take("dampening", o.dampening);
  r.take("nesterov", o.nesterov);
  r.take("alpha", o.alpha);
  r.take("beta1", o.beta1);
  r.take("beta2", o.beta2);
  r.take("epsilon", o.epsilon);
  r.take("centered", o.centered);
  r.take("amsgrad", o.amsgrad);
  r.take("weight_decay", o.weight_decay);
  r.take("clip_norm", o.clip_norm);
  r.take("ema", o.ema);
  r.take("layer_decay", o.layer_decay);
  std::vector<std::string> rates;
  r.take("lr_of", rates);
  for (const std::string& text : rates) {
    const auto rate = numbered_pattern(text);
    if (!rate) {
      throw Error("job: lr_of ", text,
                  ": a parameter's name, in which * is anything, then = and a number from 0");
    }
    o.lr_of.push_back(*rate);
  }
}

void take_sampling(JobReader& r, ndp::Sampling& s) {
  r.take("since", s.since);
  r.take("label", s.labels);
  r.take("sample", s.sample);
  r.take("truth_share", s.truth_share);
  r.take("sampling", kSamplings, s.balanced);
  r.take("class_weights", s.class_weights);
}

void take_augmentation(JobReader& r, JobSpec& s) {
  r.take("views", s.views);
  std::string names = ndp::name_of(s.augmentation);
  r.take("augment", names);
  if (names.empty()) return;
  try {
    s.augmentation = ndp::augmentation_named(names);
  } catch (const Error& e) {
    throw Error("job: augment ", names, ": ", e.what());
  }
}

void add_split(const JobSpec& s, Json& j) {
  j["val_split"] = s.val_split;
  if (s.group_duplicates) j["group_duplicates"] = true;
}

void add_sampling(const ndp::Sampling& s, Json& j) {
  if (s.since) j["since"] = *s.since;
  if (!s.labels.empty()) j["label"] = s.labels;
  if (s.sample > 0) j["sample"] = s.sample;
  if (s.truth_share) j["truth_share"] = *s.truth_share;
  if (s.balanced) j["sampling"] = "balanced";
  if (!s.class_weights.empty()) j["class_weights"] = s.class_weights;
}

void add_augmentation(const JobSpec& s, Json& j) {
  if (s.augmentation.any()) j["augment"] = ndp::name_of(s.augmentation);
  if (s.views != 0) j["views"] = s.views;
}

void take_group(JobReader& r, JobSpec& s) {
  r.take("tuners", s.tuners);
  s.trainer.shards = s.tuners;
  r.take("shards", s.trainer.shards);
  r.take("parallel", s.parallel);
  r.take("pipeline_schedule", s.pipeline_schedule);
  r.take("micro_batches", s.micro_batches);
  r.take("sync", s.sync);
  take_slow_link(r, s.slow_link);
}

void demand(bool ok, const char* key, const auto& value, const std::string& what) {
  if (!ok) throw Error("job: ", key, " ", value, ": ", what);
}

// Older Tuners do not know these keys: they are there where they say something.
void add_variants(const OptimizerConfig& o, Json& j) {
  const OptimizerConfig plain;
  if (o.dampening != plain.dampening) j["dampening"] = o.dampening;
  if (o.nesterov) j["nesterov"] = true;
  if (o.alpha != plain.alpha) j["alpha"] = o.alpha;
  if (o.beta1 != plain.beta1) j["beta1"] = o.beta1;
  if (o.beta2 != plain.beta2) j["beta2"] = o.beta2;
  if (o.epsilon != plain.epsilon) j["epsilon"] = o.epsilon;
  if (o.centered) j["centered"] = true;
  if (o.amsgrad) j["amsgrad"] = true;
  if (o.clip_norm != plain.clip_norm) j["clip_norm"] = o.clip_norm;
  if (o.ema != plain.ema) j["ema"] = o.ema;
  if (o.layer_decay != plain.layer_decay) j["layer_decay"] = o.layer_decay;
  for (const auto& [pattern, factor] : o.lr_of) {
    j["lr_of"].push_back(pattern + "=" + json_text(Json(factor)));
  }
}

void add_group(const JobSpec& s, Json& j) {
  if (s.tuners != 1 || is_slow_link(s.sync)) j.update({{"tuners", s.tuners}, {"sync", s.sync}});
  add_slow_link(j, s.slow_link);
  if (s.dry_run) j["dry_run"] = true;
  if (s.parallel == "dp") return;
  j.update({{"parallel", s.parallel},
            {"pipeline_schedule", s.pipeline_schedule},
            {"micro_batches", s.micro_batches}});
}

// "all", a number, or a list of names.
Json to_json(const StoreSelection& stores) {
  if (stores.all()) return "all";
  return stores.number > 0 ? Json(stores.number) : Json(stores.names);
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
  demand(s.only == RelabelOnly::kAll, "only", name_in(kOnly, s.only),
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

void validate(const JobSpec& s) {
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

void take_finetune(JobReader& r, JobSpec& s) {
  TrainerConfig& t = s.trainer;
  r.take("mode", kModes, s.mode);
  r.take("photos", s.photos);
  r.take("labels", s.labels);
  r.take("runs", s.runs);
  r.take("epochs", t.epochs);
  r.take("batch", t.batch);
  r.take("lr", t.schedule.lr);
  r.take("sched", kSchedules, t.schedule.kind);
  take_optimizer(r, t.optimizer);
  r.take("accumulate", t.accumulate);
  take_group(r, s);
  r.take("warmup", t.warmup_epochs);
  r.take("label_smoothing", t.label_smoothing);
  r.take("best", kBestMetrics, s.best);
  r.take("patience", s.patience);
  r.take("calibrate", s.calibrate);
  take_sampling(r, s.sampling);
  take_augmentation(r, s);
  r.take("val_split", s.val_split);
  r.take("group_duplicates", s.group_duplicates);
  r.take("head", s.head);
  r.take("freeze", s.freeze);
  r.take("feature_dtype", kFeatureTypes, s.feature_dtype);
  r.take("reset_optimizer", s.reset_optimizer);
  r.take("all_runs", s.all_runs);
  r.take("damp", s.damp);
  r.take("memory", s.memory);
  r.take("disk", s.disk);
  r.take("publish", s.publish);
  r.take("promote", s.promote);
}

}  // namespace

std::string_view name_of(JobKind kind) { return name_in(kKinds, kind); }
std::string_view name_of(JobMode mode) { return name_in(kModes, mode); }

std::string JobSpec::text() const {
  Json j = {{"kind", name_of(kind)},
            {"model", model},
            {"stores", to_json(stores)},
            {"store_timeout", store_timeout},
            {"allow_missing", allow_missing},
            {"deterministic", deterministic},
            {"seed", seed}};
  if (lost_after != kLostAfter) j["lost_after"] = lost_after;
  if (!precision.empty()) j.update({{"precision", precision}, {"max_drop", max_drop}});
  if (!cut.empty()) j["cut"] = cut;
  if (!why.empty()) j["why"] = why;
  if (!predicted.empty()) j["predicted"] = predicted;
  if (trainer.compute != DType::kF32) j["compute"] = name_in(kComputeTypes, trainer.compute);
  if (kind == JobKind::kFinetune) {
    const TrainerConfig& t = trainer;
    j.update({{"mode", name_of(mode)},
              {"photos", photos},
              {"labels", labels},
              {"runs", runs},
              {"epochs", t.epochs},
              {"batch", t.batch},
              {"lr", t.schedule.lr},
              {"sched", name_in(kSchedules, t.schedule.kind)},
              {"opt", name_in(kOptimizers, t.optimizer.kind)},
              {"momentum", t.optimizer.momentum},
              {"weight_decay", t.optimizer.weight_decay},
              {"warmup", t.warmup_epochs},
              {"label_smoothing", t.label_smoothing},
              {"head", head},
              {"freeze", freeze},
              {"feature_dtype", name_in(kFeatureTypes, feature_dtype)},
              {"reset_optimizer", reset_optimizer},
              {"all_runs", all_runs},
              {"damp", damp},
              {"memory", memory},
              {"disk", disk},
              {"publish", publish},
              {"promote",
               promote == Promote::kRule ? Json("rule") : Json(promote == Promote::kAlways)}});
    add_variants(t.optimizer, j);
    if (best != BestMetric::kTop1) j["best"] = name_of(best);
    if (patience != 0) j["patience"] = patience;
    if (calibrate) j["calibrate"] = true;
    add_split(*this, j);
    add_sampling(sampling, j);
    add_augmentation(*this, j);
    if (t.accumulate != 1) j["accumulate"] = t.accumulate;
    if (t.shards != 1) j["shards"] = t.shards;
    add_group(*this, j);
  } else {
    if (kind != JobKind::kRefine) j.update({{"top_k", top_k}, {"only", name_in(kOnly, only)}});
    j["dry_run"] = dry_run;
  }
  // An earlier Tuner knows these of no fine-tuning.
  const bool finetunes = kind == JobKind::kFinetune;
  if (!finetunes || task != kDefaultTask) j["task"] = task;
  if (!finetunes || collection != kDefaultCollection) j["collection"] = collection;
  return json_text(j, 2);
}

JobSpec parse_job_spec(std::string_view text) {
  Result<Json> json = read_json(text);
  if (!json.ok()) throw Error("job: ", json.status().message());
  if (!json->is_object()) throw Error("job: not a JSON object");
  JobReader r(std::move(*json));
  JobSpec s;
  r.take("kind", kKinds, s.kind);
  r.take("model", s.model);
  r.take("stores", s.stores);
  r.take("store_timeout", s.store_timeout);
  r.take("lost_after", s.lost_after);
  r.take("allow_missing", s.allow_missing);
  r.take("deterministic", s.deterministic);
  r.take("seed", s.seed);
  r.take("precision", s.precision);
  r.take("max_drop", s.max_drop);
  r.take("compute", kComputeTypes, s.trainer.compute);
  r.take("cut", s.cut);
  r.take("why", s.why);
  r.take("predicted", s.predicted);
  r.take("task", s.task);
  r.take("collection", s.collection);
  if (s.kind == JobKind::kFinetune) {
    take_finetune(r, s);
  } else if (s.kind != JobKind::kRefine) {
    r.take("top_k", s.top_k);
    r.take("only", kOnly, s.only);
  }
  r.take("dry_run", s.dry_run);
  r.finish(name_of(s.kind));
  s.trainer.seed = s.seed;
  validate(s);
  return s;
}

JobSpec changed(const JobSpec& spec, std::string_view text) {
  const Result<Json> changes = read_json(text);
  if (!changes.ok()) throw Error("job: what changes: ", changes.status().message());
  if (!changes->is_object()) throw Error("job: what changes is not a JSON object");
  const bool features = spec.kind == JobKind::kFinetune;
  Json job = parse_json(spec.text());
  for (const auto& [key, value] : changes->items()) {
    const bool may =
        key == "stores" || key == "store_timeout" || key == "lost_after" ||
        key == "allow_missing" ||
        (features && (key == "memory" || key == "disk" || key == "tuners" || key == "sync"));
    if (!may) {
      throw Error(
          "job: ", key, " cannot change any more; of a ", name_of(spec.kind),
          features ? " stores, store_timeout, lost_after, allow_missing, memory, disk, tuners and "
                     "sync can"
                   : " stores, store_timeout, lost_after and allow_missing can",
          "; for the rest submit another job");
    }
    job[key] = value;
  }
  const JobSpec now = parse_job_spec(json_text(job));
  if (now.sync != spec.sync && (is_slow_link(now.sync) || is_slow_link(spec.sync))) {
    throw Error("job: sync ", now.sync, ": the job was begun with ", spec.sync,
                ", and another one gives another model; submit another job");
  }
  return now;
}

}  // namespace ndtrain::tuner
