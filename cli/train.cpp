#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cli/augment_args.h"
#include "cli/computing_args.h"
#include "cli/exchange_args.h"
#include "cli/exchange_choice_args.h"
#include "cli/head_args.h"
#include "cli/note_args.h"
#include "cli/number_args.h"
#include "cli/optimizer_args.h"
#include "cli/photo_args.h"
#include "cli/photo_fs.h"
#include "cli/precision_args.h"
#include "cli/ranks.h"
#include "cli/rate_args.h"
#include "cli/sampling_args.h"
#include "cli/slow_link_args.h"
#include "cli/stage_args.h"
#include "cli/training_args.h"
#include "cli/verb.h"
#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/sparse/sync/sites.h"
#include "ndp/jobs/finetune.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

// Flags that change nothing about what a training gives, or, as --site, are of each rank alone.
constexpr std::string_view kUndecisive[] = {
    "resume",       "config",      "quiet",       "json",       "help", "out",  "threads", "cache",
    "memory-limit", "allow-lossy", "convergence", "all-gather", "site", "name", "note",    "tag"};

DType cache_dtype(const std::string& name) {
  if (name == "f16") return DType::kF16;
  if (name == "f32") return DType::kF32;
  throw UsageError("--cache-dtype " + name + ": there are f16 and f32");
}

bool is_decisive(const std::string& flag) {
  return std::ranges::count(kUndecisive, flag) + std::ranges::count(kUndecisiveRankFlags, flag) +
             std::ranges::count(kStageFlags, flag) ==
         0;
}

// As many as the run was begun with, or is begun with now.
int shards_of(const Args& args, const Ranks& ranks, const std::string& out) {
  int64_t shards = ranks.count();
  if (args.has("shards")) {
    shards = args.integer("shards");
    if (shards < 1 || shards > limits::kShards) {
      throw UsageError("--shards " + args.text("shards") + ": 1 to " +
                       std::to_string(limits::kShards));
    }
  } else if (args.on("resume")) {
    const std::string was = read_run_settings(real_fs(), out).or_throw().text("shards");
    shards = 1;
    std::from_chars(was.data(), was.data() + was.size(), shards);
  }
  if (shards < ranks.count()) {
    throw UsageError("--ranks " + std::to_string(ranks.count()) + " but " + std::to_string(shards) +
                     " shards: more ranks than that cannot take part" +
                     (args.on("resume") ? " in this run" : "; give more --shards"));
  }
  if (args.integer("batch") < shards) {
    throw UsageError("--batch " + args.text("batch") + " but " + std::to_string(shards) +
                     " shards: each has a row of a step at least");
  }
  if (args.integer("batch") / shards < accumulate_of(args)) {
    throw UsageError("--accumulate " + args.text("accumulate") + " but a shard has " +
                     std::to_string(args.integer("batch") / shards) + " of the --batch " +
                     args.text("batch") + ": each part has a photo of each shard at least");
  }
  return static_cast<int>(shards);
}

FinetuneConfig config_of(const Args& args, uint64_t seed) {
  FinetuneConfig c;
  c.data = args.required("DATA");
  refuse_object_stores({c.data});
  c.model = args.required("model");
  c.out = args.required("out");
  c.labels = args.text("labels");
  c.database = database_labels(args);
  c.sampling = sampling_of(args);
  if (c.sampling.since && c.database.url.empty()) {
    throw UsageError("--since " + args.text("since") +
                     ": times of labels are in a label database; say which with --db");
  }
  c.val_split = args.has("val-split") ? args.number("val-split") : -1;
  if (c.val_split >= 1) throw UsageError("--val-split " + args.text("val-split") + ": below 1");
  c.group_duplicates = args.on("group-duplicates");
  c.freeze = args.text("freeze");
  c.head = head_of(args);
  c.best = best_of(args);
  c.patience = args.integer("patience");
  c.calibrate = args.on("calibrate");
  c.cache_dtype = cache_dtype(args.text("cache-dtype"));
  c.cache = args.text("cache");
  c.precision = precision_config(args, c.cache);
  c.memory_limit = static_cast<int64_t>(args.bytes("memory-limit"));
  c.fast_decode = args.on("fast-decode");
  c.augmentation = augmentation_of(args);
  c.views = views_of(args);
  c.resume = args.on("resume");
  c.given = args.settings();
  std::erase_if(c.given, [](const auto& kv) { return !is_decisive(kv.first); });
  c.version = NDT_VERSION;
  c.notes = notes_of(args);
  if (args.has("config")) c.repeats = read_run_settings(real_fs(), args.text("config")).or_throw();
  TrainerConfig& t = c.how.trainer;
  t.epochs = args.integer("epochs");
  t.batch = args.integer("batch");
  t.seed = seed;
  t.compute = compute_of(args);
  t.label_smoothing = args.number("label-smoothing");
  t.warmup_epochs = args.number("warmup");
  t.optimizer = optimizer_of(args);
  t.accumulate = accumulate_of(args);
  t.schedule.kind = schedule_named(args.text("sched"));
  t.schedule.lr = args.number("lr");
  if (t.epochs < 1) throw UsageError("--epochs " + args.text("epochs") + ": at least 1");
  if (t.batch < 1) throw UsageError("--batch " + args.text("batch") + ": at least 1");
  if (!(t.schedule.lr > 0)) throw UsageError("--lr " + args.text("lr") + ": above 0");
  return c;
}

Json to_json(const FinetuneResult& r) {
  const bool validated = r.val_photos > 0 && !r.model.empty();
  const auto of_validation = [&](double x) { return validated ? Json(x) : Json(); };
  return {{"model", r.model.empty() ? Json() : Json(r.model)},
          {"top1", of_validation(r.top1)},
          {"top5", of_validation(r.top5)},
          {"val_loss", of_validation(r.loss)},
          {"temperature", r.temperature > 0 ? Json(r.temperature) : Json()},
          {"best_epoch", r.best_epoch},
          {"val_macro_f1", of_validation(r.macro_f1)},
          {"epochs", r.epochs},
          {"classes", r.classes},
          {"train_photos", r.train_photos},
          {"val_photos", r.val_photos},
          {"quarantined", r.quarantined},
          {"skipped", r.skipped},
          {"decoded_and_inferred", r.extraction.extracted},
          {"from_cache", r.extraction.cached},
          {"foreign_accepted", r.extraction.foreign_accepted},
          {"foreign_refused", r.extraction.foreign_refused},
          {"feature_bytes", r.feature_bytes},
          {"mean_photo_bytes", r.mean_photo_bytes},
          {"trained_parameters", r.parameters},
          {"setup_s", r.setup_s},
          {"extract_s", r.extract_s},
          {"train_s", r.train_s},
          {"first_step_s", r.first_step_s},
          {"total_s", r.total_s}};
}

// Of a step; of those that could not be measured, nothing.
void add_exchange(const ExchangeReport& r, Json& json) {
  if (r.steps > 0) {
    json["step_s"] = r.step_s;
    json["step_computing_s"] = r.computing_s;
    json["step_exposed_s"] = r.exposed_s;
    json["slowest_rank"] = r.slowest_rank;
  }
  if (r.costs) {
    json["predicted_step_s"] = r.predicted.step_s;
    json["predicted_exposed_s"] = r.predicted.exposed_s;
  }
}

void declare_training_data(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Data");
  declare_label_flags(args);
  args.flag("val-split",
            "share of photos for validation, chosen by their content (default: DATA/val, else 0.2)",
            "X");
  args.flag("group-duplicates",
            "photos that are almost the same (see ndtrain photos duplicates) are all trained on or "
            "all validated with");
  args.flag("cache",
            "where features and the list of the photos are kept (default: ~/.cache/ndtrain)",
            "DIR");
  args.flag("cache-dtype",
            "f16 or f32: how features are kept, and rounded in the written model too", "TYPE",
            "f16");
  args.flag("memory-limit",
            "features beyond this are streamed from disk, e.g. 4G (default: half of what is free)",
            "BYTES");
  args.flag("fast-decode",
            "decode large JPEGs at a reduced size, but for --augment crop: faster, other pixels");
}

}  // namespace

void declare_train(ArgsSpec& args) {
  args.positional(
      "DATA",
      "photos: DATA/train and DATA/val, or DATA itself; a directory per class, unless --labels or "
      "--db says what they show");
  args.flag("m,model", "the model to start from, an ONNX file or a run directory (required)",
            "MODEL");
  args.flag("o,out", "the directory for model.onnx, checkpoints and report.html (required)", "RUN");
  args.flag("resume", "go on with the run in RUN, also to more --epochs than it was begun with");
  args.flag("config",
            "take all settings of another run, from its directory or args.toml; flags go over them",
            "RUN");
  args.flag(
      "freeze",
      "what stays as it is: auto, all but the classifier; NAME, up to that layer or value (see "
      "ndtrain model inspect); N, the first N layers; or none",
      "WHAT", "auto");
  declare_notes(args, "the run");
  declare_training_data(args);
  declare_training_rules(args);
  declare_computing(args);
  declare_seed(args);
  declare_compute(args);
  declare_precision_flags(args);
  declare_deterministic(args, /*features=*/true);
  declare_ranks(args);
  declare_exchange(args);
  declare_slow_link(args);
  declare_site(args, "this rank");
  declare_rates(args);
  declare_exchange_choice(args);
  declare_stages(args);
}

// What each rank needs besides its flags.
void set_ranks(FinetuneConfig& config, const Args& args, Ranks& ranks, Fs& fs) {
  if (config.how.slow_link) {
    config.how.slow_link->directory = config.out;
    config.how.slow_link->shares = ranks.shares();
    config.how.slow_link->trace = args.text("trace");
    config.how.slow_link->regroup = ranks.regroup();
  }
  if (config.choice) {
    for (ExchangeCandidate& c : config.choice->candidates) {
      c.config.directory = config.out;
      c.config.shares = ranks.shares();
      c.config.trace = args.text("trace");
      c.config.regroup = ranks.regroup();
    }
  }
  config.out = ranks.directory(config.out);
  if (Communicator* all = ranks.communicator(); all && config.resume)
    share_run(*all, fs, config.out);
  config.how.ranks.one_cache = ranks.on_one_machine();
  std::erase_if(config.given,
                [](const auto& kv) { return kv.first == "shards" || kv.first == "collectives"; });
  if (config.how.stages && config.how.stages_from == 0) return;
  const int shards = shards_of(args, ranks, config.out);
  config.how.trainer.shards = shards;
  config.how.ranks.sync = args.text("sync");
  config.how.ranks.bucket_bytes = ranks.bucket_size().bytes;
  config.how.ranks.tune_buckets = ranks.bucket_size().tuned;
  config.how.ranks.trace = args.text("trace");
  config.how.ranks.shares = ranks.shares();
  config.how.ranks.measure_shares = ranks.measures_shares();
  config.how.ranks.exchange.native = ranks.native_collectives();
  config.how.ranks.regroup = ranks.regroup();
  if (ranks.native_collectives()) config.given.emplace_back("collectives", "native");
  if (shards > 1) config.given.emplace_back("shards", std::to_string(shards));
}

// What stages alone give is what one process gives that is asked for as many parts, unless
// something else is decisive.
void set_stages(FinetuneConfig& config, const StagesAsked& asked) {
  config.how.stages = asked.config;
  config.how.stages_from = asked.from_epoch;
  if (asked.from_epoch == 0) {
    std::erase_if(config.given, [](const auto& kv) {
      return kv.first == "accumulate" || kv.first == "deterministic";
    });
    config.given.emplace_back("deterministic", "true");
    if (asked.config.micro_batches > 1) {
      config.given.emplace_back("accumulate", std::to_string(asked.config.micro_batches));
    }
  }
  std::ranges::copy(asked.decisive, std::back_inserter(config.given));
}

// The number of ranks decides what it gives.
void set_slow_link(FinetuneConfig& config, const SlowLinkChoice& choice, int ranks) {
  if (ranks == 1) {
    throw UsageError("--sync " + choice.method.sync +
                     ": one process sends nothing; give --ranks 2 or more");
  }
  if (config.how.trainer.optimizer.ema > 0) {
    throw UsageError("--ema with --sync " + choice.method.sync +
                     ": an average is of ranks that take every step alike; leave it away, or take "
                     "--sync ddp");
  }
  config.how.slow_link =
      SlowLinkConfig{.method = method_of(choice.method), .verify_every = choice.verify_every};
  if (choice.optimizer_without_momentum()) config.how.trainer.optimizer.momentum = 0;
  auto settings = settings_of(choice.method);
  settings.emplace_back("ranks", std::to_string(ranks));
  for (auto& setting : settings) {
    std::erase_if(config.given, [&](const auto& kv) { return kv.first == setting.first; });
    config.given.push_back(std::move(setting));
  }
}

// Collective: whoever has another --sync hears of it later.
void set_sites(FinetuneConfig& config, const Args& args, const Ranks& ranks) {
  if (ranks.count() == 1) return;
  std::vector<int> sites = sites_of_ranks(*ranks.communicator(), site_of(args));
  if (config.how.slow_link) config.how.slow_link->sites = std::move(sites);
}

// Whether --resume has anything to go on from, as rank 0 has it.
std::string how_to_go_on(const Ranks& ranks, Fs& fs, const std::string& out) {
  if (!ranks.is_first()) return "the same command with --resume goes on from what rank 0 has saved";
  if (fs.exists(join(out, "last.safetensors"))) return "the same command with --resume goes on";
  if (!fs.exists(join(out, "args.toml"))) return "nothing was saved: the same command begins anew";
  return "no epoch was saved yet: the same command with --resume begins with the first one";
}

// The result, with what is of ranks.
Json result_of(const FinetuneResult& r, const Ranks& ranks, const FinetuneConfig& config) {
  Json json = to_json(r);
  if (ranks.count() > 1) json["exposed_s"] = r.figures.exposed_s;
  if (!r.exchange.word.empty()) {
    json["exchange"] = r.exchange.word;
    json["exchange_predicted_step_s"] = r.exchange.step_s;
  }
  if (r.figures.exchange) add_exchange(*r.figures.exchange, json);
  if (r.figures.slow_link) {
    json["step_sent_bytes"] = r.figures.slow_link->step_sent_bytes;
    json["step_gradient_bytes"] = r.figures.slow_link->step_gradient_bytes;
    if (r.figures.slow_link->step_s > 0) json["step_s"] = r.figures.slow_link->step_s;
    json["left_out_steps"] = r.figures.slow_link->left_out;
  }
  if (r.figures.stage_step_s > 0) json["step_s"] = r.figures.stage_step_s;
  for (const StageTraining::RankFigures& f : r.figures.stage_ranks) {
    json["rank_memory_bytes"].push_back(f.memory_bytes);
    json["rank_waited_s"].push_back(f.waited_s);
  }
  if (config.how.trainer.optimizer.clip_norm > 0) json["clip_exposed_s"] = r.figures.clip_exposed_s;
  if (!r.lost_ranks.empty()) json["lost_ranks"] = r.lost_ranks;
  for (const RankShare& s : r.figures.shares) {
    json["shares"].push_back({{"rank", s.rank}, {"shards", s.shards}, {"shard_s", s.shard_s}});
  }
  return json;
}

// What evaluates an average asks all ranks for their parts of it, and does not go back for one.
void refuse_regrouping(const FinetuneConfig& config, const Args& args) {
  if (config.how.trainer.optimizer.ema == 0 || !args.given("on-rank-loss")) return;
  if (args.text("on-rank-loss") != "regroup") return;
  if (!config.how.ranks.exchange.shard_optimizer) return;
  throw UsageError(
      "--ema with --shard-optimizer and --on-rank-loss regroup: each rank has a part of the "
      "average alone; leave one of them away");
}

int run_train(Context& context, const Args& args) {
  FinetuneConfig config = config_of(args, context.seed());
  const auto slow_link = slow_link_of(args, context.fs(), config.model, config.how.trainer);
  if (args.given("site") && !slow_link) {
    throw UsageError("--site is of --sync sparse, powersgd, local and diloco: add that");
  }
  Ranks ranks(context, args);
  if (ranks.share_a_terminal() && !ranks.is_first()) context.be_quiet();
  if (slow_link) {
    set_slow_link(config, *slow_link, ranks.count());
  } else {
    config.how.ranks.exchange = exchange_of(args, ranks.count());
    refuse_regrouping(config, args);
  }
  config.choice = exchange_choice_of(context, args, ranks.count());
  if (const auto asked = stages_of(args, context.fs(), ranks.count())) {
    set_stages(config, *asked);
  }
  const bool shares_rows = !config.how.stages || config.how.stages_from > 0;
  if (shares_rows && (!config.resume || ranks.is_first())) {
    (void)shards_of(args, ranks, config.out);
  }
  ranks.meet(args, context);
  FinetuneResult r;
  try {
    set_ranks(config, args, ranks, context.fs());
    set_sites(config, args, ranks);
    if (config.how.trainer.shards > 1 || config.how.stages) context.be_deterministic();
    r = finetune(config, context.device(), context.fs(), context.clock(), context.progress(),
                 ranks.take_communicator());
  } catch (const RankLost& lost) {
    log::warn("{}; {}", lost.what(), how_to_go_on(ranks, context.fs(), config.out));
    return kInterrupted;
  }
  ranks.give_up(r.lost_ranks);
  if (r.interrupted) {
    const bool whole = !config.how.ranks.is_breakdown();
    log::warn("stopped{}", whole ? "; the same command with --resume goes on" : "");
    return kInterrupted;
  }
  if (!ranks.is_first()) return kOk;
  Json json = result_of(r, ranks, config);
  if (r.val_photos == 0) context.progress().say("no photo validated: there is no accuracy");
  if (args.has("db")) json["unlabelled"] = r.unlabelled;
  context.print(json, table(json));
  return r.quarantined > 0 ? kQuarantined : kOk;
}

}  // namespace ndtrain::cli
