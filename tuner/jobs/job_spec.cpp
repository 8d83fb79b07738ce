#include "tuner/jobs/job_spec.h"

#include <utility>

#include "framework/core/json.h"
#include "framework/core/json_input.h"
#include "framework/train/name_pattern.h"
#include "tuner/jobs/job_reader.h"
#include "tuner/jobs/job_spec_check.h"
#include "tuner/jobs/slow_link_job.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

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
std::string_view name_of(RelabelOnly only) { return name_in(kOnly, only); }

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
  check_job_spec(s);
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
