#include "cli/stage_args.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "cli/number_args.h"
#include "cli/optimizer_args.h"
#include "cli/slow_link_args.h"
#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/parallel/plan_by_sizes.h"
#include "framework/pipeline/planner/pipeline_plan.h"
#include "framework/pipeline/schedules/pipeline_schedule.h"

namespace ndtrain::cli {
namespace {

// What belongs to ranks that share the rows, and why stages have none of it.
constexpr std::pair<const char*, const char*> kOfRows[] = {
    {"bucket-size", "replicas of a stage exchange as --sync has it"},
    {"wire-dtype", "replicas of a stage exchange f32"},
    {"comm-only", "it is of ranks that have all layers"},
    {"shares", "what a rank has is given by its stage; --plan says which"},
    {"shards", "stages share a step by layers, and not its rows"},
    {"shard-optimizer", "each rank keeps the moments of its own stage anyway"},
    {"trace", "there is none of stages yet"}};

// What stages cannot do, and what they need not where they train from the beginning.
void refuse_what_is_of_rows(const Args& args, bool from_the_beginning) {
  constexpr std::string_view kNever[] = {"comm-only", "trace"};
  for (const auto& [flag, why] : kOfRows) {
    if (!from_the_beginning && std::ranges::count(kNever, flag) == 0) continue;
    if (!args.given(flag) || (std::string_view(flag) == "shards" && args.text(flag) == "1")) {
      continue;
    }
    throw UsageError(std::string("--") + flag + " with --parallel pipeline: " + why +
                     "; leave it away");
  }
  if (args.text("collectives") == "native" || args.text("comm") == "nccl") {
    throw UsageError(
        "--parallel pipeline sends values by tcp or mpi, and sums nothing; leave --collectives "
        "native and --comm nccl away");
  }
  if (args.has("clip-norm") && args.number("clip-norm") > 0) {
    throw UsageError("--clip-norm " + args.text("clip-norm") +
                     " with --parallel pipeline: the norm is over all stages, which is not there "
                     "yet; leave it away");
  }
  if (args.text("compute") == "f16") {
    throw UsageError("--compute f16 with --parallel pipeline: take f32 or bf16");
  }
}

bool is_of_stages(std::string_view how) { return how == "pipeline" || how == "hybrid"; }

// The epoch from which ranks are stages; nothing: they never are.
std::optional<int64_t> stages_from(const Args& args) {
  const std::string text = args.text("parallel");
  if (text.empty() || text == "dp") return std::nullopt;
  if (is_of_stages(text)) return 0;
  const size_t comma = text.find(',');
  if (text.starts_with("dp:") && comma != std::string::npos &&
      is_of_stages(std::string_view(text).substr(comma + 1))) {
    const std::vector<int> epochs = parse_counts("parallel", text.substr(3, comma - 3), 1'000'000);
    if (epochs.size() == 1) return epochs[0];
  }
  throw UsageError("--parallel " + text +
                   ": there are dp, pipeline, hybrid, which is a pipeline whose stages may be on "
                   "several ranks, and dp:60,hybrid, the one for 60 epochs and then the other");
}

void refuse_without_stages(const Args& args) {
  for (const std::string_view flag : kStageFlags) {
    const std::string name(flag);
    const bool of_slow_link = is_slow_link(args) && (name == "staleness" || name == "drain-every");
    if (name == "parallel" || of_slow_link || !args.given(name)) continue;
    throw UsageError("--" + name + " is of --parallel pipeline; give that too");
  }
}

int stages_per_rank(const Args& args, const PipelinePlan* plan, int ranks) {
  if (args.has("stages-per-rank")) {
    const int64_t n = args.integer("stages-per-rank");
    if (n < 1 || n > limits::kStagesOfRank) {
      throw UsageError("--stages-per-rank " + args.text("stages-per-rank") + ": 1 to " +
                       std::to_string(limits::kStagesOfRank));
    }
    return static_cast<int>(n);
  }
  if (!plan || plan->devices() != std::ssize(plan->stages)) return 1;
  if (std::ssize(plan->stages) % ranks != 0) return 1;
  return static_cast<int>(std::ssize(plan->stages) / ranks);
}

std::string schedule_of(const Args& args, const PipelinePlan* plan, int chunks) {
  std::string name = args.text("pipeline-schedule");
  if (args.on("no-input-pipelining")) {
    if (!name.empty() && name != "sync") {
      throw UsageError("--no-input-pipelining is the schedule sync, and not --pipeline-schedule " +
                       name + "; leave one away");
    }
    name = "sync";
  }
  const bool planned = name.empty() && plan;
  if (planned) name = plan->schedule;
  if (name.empty()) name = chunks > 1 ? "interleaved" : "1f1b";
  const std::string said =
      planned ? "--plan " + args.text("plan") + " has the schedule " : "--pipeline-schedule ";
  try {
    (void)pipeline_schedule(name);
  } catch (const Error& e) {
    throw UsageError(said + name + ": " + e.what());
  }
  if (chunks > 1 && name != "interleaved") {
    throw UsageError(said + name + " has one stage a rank, not " + std::to_string(chunks) +
                     "; interleaved has any number");
  }
  return name;
}

void check_plan(const PipelinePlan& plan, const std::string& file, int ranks, int chunks) {
  if (plan.devices() != int64_t{ranks} * chunks) {
    throw UsageError("--plan " + file + " has " + std::to_string(plan.stages.size()) +
                     " stages on " + std::to_string(plan.devices()) + " devices; " +
                     std::to_string(ranks) + " ranks of " + std::to_string(chunks) + " have " +
                     std::to_string(ranks * chunks));
  }
}

// Ranks of each stage; none: one.
std::vector<int> replicas_of(const Args& args, bool has_plan, const std::vector<int>& planned,
                             int ranks, int chunks) {
  std::vector<int> replicas = planned;
  if (args.has("replicas")) {
    if (has_plan) {
      throw UsageError(
          "--replicas with --plan, which says how many ranks a stage has; leave one "
          "away");
    }
    replicas = parse_counts("replicas", args.text("replicas"), ranks);
    if (std::accumulate(replicas.begin(), replicas.end(), int64_t{0}) != ranks) {
      throw UsageError("--replicas " + args.text("replicas") + ": there are " +
                       std::to_string(ranks) + " ranks; each is one of a stage's");
    }
  }
  if (!replicas.empty() && chunks > 1) {
    throw UsageError("--stages-per-rank " + std::to_string(chunks) +
                     ", but a stage on several ranks is the only one of each");
  }
  const int most = replicas.empty() ? 1 : std::ranges::max(replicas);
  if (args.integer("batch") < most) {
    throw UsageError("--batch " + args.text("batch") + " but a stage is on " +
                     std::to_string(most) +
                     " ranks, each of which takes a photo of a step at least");
  }
  return replicas;
}

std::string sync_of(const Args& args, const std::vector<int>& replicas, bool from_the_beginning) {
  std::string name = args.text("sync");
  if (!from_the_beginning) return name;
  if (replicas.empty()) {
    throw UsageError(
        "--sync with --parallel pipeline: stages on a rank each exchange no gradients; "
        "give --replicas, or leave it away");
  }
  try {
    (void)goes_by_sizes(name);
  } catch (const Error& e) {
    throw UsageError(std::string("--sync ") + name + ": " + e.what());
  }
  return name;
}

int64_t micro_batches_of(const Args& args, const PipelinePlan* plan, int stages,
                         bool from_the_beginning) {
  const int64_t parts = from_the_beginning ? accumulate_of(args) : 1;
  int64_t n = parts > 1 ? parts : plan ? plan->micro_batches : stages;
  const bool asked = args.has("micro-batches");
  if (asked) n = args.integer("micro-batches");
  if (n < 1) throw UsageError("--micro-batches " + args.text("micro-batches") + ": at least 1");
  if (asked && parts > 1 && parts != n) {
    throw UsageError("--micro-batches " + args.text("micro-batches") +
                     " are --accumulate's parts, "
                     "which are " +
                     args.text("accumulate") + "; leave one away");
  }
  if (args.integer("batch") < n) {
    throw UsageError("--batch " + args.text("batch") + " but " + std::to_string(n) +
                     " micro-batches: each has a photo of a step at least");
  }
  return n;
}

int64_t drain_every_of(const Args& args, const std::string& schedule) {
  if (!args.given("drain-every")) return StageConfig{}.drain_every;
  const int64_t n = args.integer("drain-every");
  if (n < 1) throw UsageError("--drain-every " + args.text("drain-every") + ": at least 1");
  if (pipeline_schedule(schedule)->synchronous()) {
    throw UsageError("--drain-every with the schedule " + schedule +
                     ", which is drained behind each step; async and 2bw are not");
  }
  return n;
}

Staleness staleness_of(const Args& args, const std::string& schedule) {
  if (!args.has("staleness")) return {};
  if (pipeline_schedule(schedule)->synchronous()) {
    throw UsageError("--staleness with the schedule " + schedule +
                     ", which computes on the newest parameters; async and 2bw do not");
  }
  try {
    const Staleness s = parse_staleness(args.text("staleness"));
    s.check(optimizer_of(args));
    return s;
  } catch (const Error& e) {
    throw UsageError("--staleness " + args.text("staleness") + ": " + e.what());
  }
}

std::vector<std::pair<std::string, std::string>> decisive_of(const Args& args, int ranks,
                                                             const StagesAsked& of) {
  const StageConfig& asked = of.config;
  const bool late = !pipeline_schedule(asked.schedule)->synchronous();
  if (!late && asked.replicas.empty() && of.from_epoch == 0) return {};
  std::vector<std::pair<std::string, std::string>> all = {{"parallel", args.text("parallel")},
                                                          {"ranks", std::to_string(ranks)},
                                                          {"pipeline-schedule", asked.schedule}};
  if (late) all.emplace_back("drain-every", std::to_string(asked.drain_every));
  for (const char* flag : {"plan", "staleness", "replicas"}) {
    if (args.has(flag)) all.emplace_back(flag, args.text(flag));
  }
  if (of.from_epoch > 0) {
    all.emplace_back("micro-batches", std::to_string(asked.micro_batches));
  }
  return all;
}

}  // namespace

void declare_stages(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Stages");
  args.flag(
      "parallel",
      "by ranks: dp, each has all layers and some rows of a step; or pipeline, each has some "
      "layers and all rows: --ranks 2 --parallel pipeline --micro-batches 4; with --device cpu "
      "its model is that of one process with --accumulate 4 --deterministic; hybrid, the same "
      "with --plan or --replicas; dp:60,hybrid: the one for 60 epochs, then the other",
      "HOW", "dp");
  args.flag("plan",
            "by stages: which nodes each has, from ndtrain plan train (default: as equal as what "
            "they compute can be)",
            "FILE");
  args.flag("pipeline-schedule",
            "by stages: gpipe, 1f1b, interleaved, zb or sync; or, on parameters that are some "
            "updates old, async or 2bw (default: the plan's, else 1f1b)",
            "NAME");
  args.flag("no-input-pipelining",
            "by stages: one micro-batch at a time, the schedule sync: model parallelism alone");
  args.flag("stages-per-rank",
            "by stages: so many, 1 to " + std::to_string(limits::kStagesOfRank) +
                ", with the schedule interleaved",
            "N");
  args.flag("replicas",
            "by stages: how many ranks each has, which share the photos of a step and exchange "
            "gradients by --sync, as 2,1 for --ranks 3 (default: the plan's, else one)",
            "N,N");
  args.flag("micro-batches",
            "by stages: parts of a step that follow each other through them, as --accumulate has "
            "them (default: the plan's, else as many as stages)",
            "N");
  args.flag("recompute",
            "by stages: keep what comes into a stage alone, and compute its forward pass again "
            "before it is taken back: less memory, the same bytes (default: the plan's stages that "
            "have it)");
  args.flag(
      "staleness",
      "by stages, with async or 2bw: what makes up for old parameters, of lr-scale:STEPS "
      "(PipeMare: a lower rate in the first so many steps), predict (SpecTrain: compute on "
      "what momentum makes of them) and delay-compensation:LAMBDA (DC-ASGD); default: nothing. By "
      "--sync sparse: a number, of the last steps whose gradients one computes without, which "
      "travel meanwhile (default: 0)",
      "NAMES|S");
  args.flag("drain-every",
            "by stages, with async or 2bw, with --sync sparse --staleness, local and diloco: all "
            "that is under way is applied behind so many steps, where a run can be stopped, and "
            "behind each epoch (default of local and diloco: the first multiple of --inner-steps "
            "from 100)",
            "N", std::to_string(StageConfig{}.drain_every));
}

bool by_stages(const Args& args) { return stages_from(args).has_value(); }

std::optional<StagesAsked> stages_of(const Args& args, Fs& fs, int ranks) {
  if (!by_stages(args)) {
    refuse_without_stages(args);
    return std::nullopt;
  }
  StagesAsked asked;
  asked.from_epoch = *stages_from(args);
  const bool from_the_beginning = asked.from_epoch == 0;
  refuse_what_is_of_rows(args, from_the_beginning);
  if (ranks == 1) {
    throw UsageError("--parallel pipeline: each stage is on a rank; give --ranks 2 or more");
  }
  std::optional<PipelinePlan> plan;
  if (args.has("plan")) plan = load_pipeline_plan(fs, args.text("plan"));
  const PipelinePlan* const given = plan ? &*plan : nullptr;
  if (plan) asked.config = stages_of_plan(*plan);
  asked.config.chunks = stages_per_rank(args, given, ranks);
  asked.config.schedule = schedule_of(args, given, asked.config.chunks);
  asked.config.drain_every = drain_every_of(args, asked.config.schedule);
  asked.config.staleness = staleness_of(args, asked.config.schedule);
  if (plan) check_plan(*plan, args.text("plan"), ranks, asked.config.chunks);
  asked.config.replicas =
      replicas_of(args, plan.has_value(), asked.config.replicas, ranks, asked.config.chunks);
  if (args.given("sync")) {
    asked.config.sync = sync_of(args, asked.config.replicas, from_the_beginning);
  }
  const int stages = asked.config.replicas.empty() ? ranks * asked.config.chunks
                                                   : static_cast<int>(asked.config.replicas.size());
  asked.config.micro_batches = micro_batches_of(args, given, stages, from_the_beginning);
  if (args.on("recompute")) asked.config.recompute.assign(static_cast<size_t>(stages), true);
  asked.decisive = decisive_of(args, ranks, asked);
  if (asked.from_epoch > 0 && args.integer("epochs") <= asked.from_epoch) {
    log::warn("--parallel {}: all {} epochs are by ranks that share the photos",
              args.text("parallel"), args.integer("epochs"));
  }
  return asked;
}

}  // namespace ndtrain::cli
