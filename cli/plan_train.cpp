#include <fmt/format.h>

#include <algorithm>

#include "cli/computing_args.h"
#include "cli/number_args.h"
#include "cli/plan_methods.h"
#include "cli/profile_file.h"
#include "cli/verb.h"
#include "framework/core/limits.h"
#include "framework/core/publish.h"
#include "framework/pipeline/planner/model_profile_json.h"
#include "framework/pipeline/planner/pipeline_rules.h"
#include "framework/pipeline/planner/planner.h"
#include "framework/pipeline/planner/play_plan.h"
#include "framework/pipeline/schedules/pipeline_svg.h"

namespace ndtrain::cli {
namespace {

// "-n 4 2", whose second number has no flag in front of it; "-n 4,2".
std::vector<int> units_of(const Args& args) {
  std::vector<int> units;
  std::vector<std::string> texts = args.list("devices");
  if (texts.empty()) throw UsageError("-n is missing: devices of a machine, machines, as -n 4 2");
  const std::vector<std::string> more = args.list("UNITS");
  texts.insert(texts.end(), more.begin(), more.end());
  for (const std::string& text : texts) {
    for (const std::string& part : parts_of(text)) {
      const std::vector<int> count = parse_counts("devices", part, limits::kRanks);
      if (count.size() != 1) throw UsageError("-n " + part + ": a level has one number of units");
      units.push_back(count[0]);
    }
  }
  return units;
}

PipelinePlanOptions options_of(const Args& args) {
  PipelinePlanOptions options;
  const std::string cost = args.text("cost");
  if (cost != "measured" && cost != "ashpipe") {
    throw UsageError("--cost " + cost + ": there are measured and ashpipe");
  }
  options.published_costs = cost == "ashpipe";
  if (options.published_costs && args.text("schedule") != "auto") {
    throw UsageError("--schedule " + args.text("schedule") + ": --cost ashpipe knows async alone");
  }
  try {
    options.preset = plan_preset_named(args.text("preset"));
    pipeline_rules(args.text("schedule"), {});
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
  options.schedule = args.text("schedule");
  options.recompute = !args.on("no-recompute");
  options.fewer = args.on("use-fewer");
  options.compress_branches = args.on("compress-branches");
  options.minibatch_ratio = parse_positive("minibatch-ratio", args.text("minibatch-ratio"));
  options.activation_compression =
      parse_positive("activation-compression", args.text("activation-compression"));
  const int64_t states = args.integer("states");
  if (states < 1 || states > limits::kPlannedStates) {
    throw UsageError("--states " + args.text("states") + ": 1 to " +
                     std::to_string(limits::kPlannedStates));
  }
  options.most_states = static_cast<int>(states);
  options.most_micro_batches = args.integer("micro-batches");
  if (options.most_micro_batches < 1 || options.most_micro_batches > limits::kPlannedMicroBatches) {
    throw UsageError("--micro-batches " + args.text("micro-batches") + ": 1 to " +
                     std::to_string(limits::kPlannedMicroBatches));
  }
  return options;
}

void save_graph(Fs& fs, const std::string& file, ModelProfile profile, const PipelinePlan& plan) {
  for (NodeProfile& n : profile.nodes) {
    if (n.is_input()) n.stage = 0;
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      if (std::ranges::count(plan.stages[s].nodes, n.id) > 0) n.stage = static_cast<int>(s);
    }
  }
  write_profile(fs, file, profile);
}

std::string stage_table(const PipelinePlan& plan) {
  std::string text = fmt::format("{:<7}{:>9}{:>10}{:>11}{:>12}{:>12}  {}\n", "stage", "replicas",
                                 "versions", "recompute", "ms", "memory", "nodes");
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const PlannedStage& s = plan.stages[i];
    text += fmt::format("{:<7}{:>9}{:>10}{:>11}{:>12.3f}{:>9.3f} GB  {} to {} ({})\n", i,
                        s.replicas, s.versions, s.recompute ? "yes" : "no", s.seconds * 1e3,
                        s.memory_bytes / 1e9, s.nodes.front(), s.nodes.back(), s.nodes.size());
  }
  return text + fmt::format(
                    "\n{}, {} micro-batch{}: {:.3f} ms a mini-batch, by {} costs; one device "
                    "{:.3f} ms, data parallel {:.3f} ms; {} states\n",
                    plan.schedule, plan.micro_batches, plan.micro_batches == 1 ? "" : "es",
                    plan.seconds * 1e3, plan.costs, plan.one_device_s * 1e3,
                    plan.data_parallel_s * 1e3, plan.states);
}

// Mini-batches until a steady state shows, and is left.
int64_t drawn_mini_batches(const PipelinePlan& plan) {
  return 2 * static_cast<int64_t>(plan.stages.size()) + 2;
}

std::string drawing(const PipelinePlan& plan, const PlayedPlan& played) {
  return pipeline_svg(
      played.shape, played.prediction,
      fmt::format("{}: {}, {} stages on {} devices, {} micro-batches", plan.model, plan.schedule,
                  plan.stages.size(), plan.devices(), plan.micro_batches));
}

}  // namespace

void declare_plan_train(ArgsSpec& args) {
  args.positionals("UNITS", "of the levels above the first, behind -n: 2 in -n 4 2");
  args.flag("profile", "what nodes cost: profile.json, or AshPipe's graph.txt", "FILE");
  args.flag("n,devices",
            "devices of a machine, then machines, and so on outwards, as -n 4 2 or -n 4,2", "N");
  args.flag("network", "bandwidths of each level, inner first: AshPipe's network.json", "FILE");
  args.flag("o,out", "write the plan, as JSON", "FILE");
  args.flag("save-graph",
            "write the profile with the stages of its nodes: .dot, .csv, .json, else graph.txt",
            "FILE");
  args.flag("draw", "draw its instructions in virtual time, as SVG, and say what they take",
            "FILE");
  args.flag("cost", "measured, or ashpipe: its published cost model, to the letter", "MODEL",
            "measured");
  args.flag("preset", "dp: one stage on all devices; pipeline: a stage on each; hybrid: any plan",
            "NAME", "hybrid");
  args.flag("schedule", "auto, async, 2bw, zb, 1f1b or gpipe", "NAME", "auto");
  args.flag("memory", "of a device, as 16G (default: no limit)", "BYTES");
  args.flag("no-recompute", "no forward pass is repeated to save memory");
  args.flag("use-fewer", "devices may be left over");
  args.flag("compress-branches", "nodes that stand alone in a branch are one: fewer states");
  args.flag("micro-batches",
            "parts of a mini-batch at most, 1, 2, 4 …; batch statistics are of one each", "N",
            std::to_string(limits::kPlannedMicroBatches));
  args.flag("minibatch-ratio", "the mini-batch, to that of the profile", "X", "1");
  args.flag("activation-compression", "so many times less is sent between stages", "X", "1");
  args.flag("states",
            "sets of nodes that are searched at most; time and memory grow with their square", "N",
            "3000");
  declare_plan_methods(args);
  declare_computing(args);
  declare_seed(args);
}

int run_plan_train(Context& context, const Args& args) {
  if (args.has("link")) return run_plan_methods(context, args);
  refuse_plan_methods(args);
  const std::string file = args.required("profile"), network = args.required("network");
  const std::vector<int> units = units_of(args);
  const PipelinePlanOptions options = options_of(args);
  Topology topology = load_network(context.fs(), network, units);
  if (args.has("memory")) topology.memory_bytes = static_cast<double>(args.bytes("memory"));
  ModelProfile profile = load_model_profile(context.fs(), file);
  if (profile.model.empty()) profile.model = file;
  const PipelinePlan plan = plan_pipeline(profile, topology, options);
  if (args.has("out")) publish(context.fs(), args.text("out"), plan.text()).or_throw();
  Json json = parse_json(plan.text());
  std::string text = stage_table(plan);
  if (args.has("draw")) {
    const PlayedPlan played = play_plan(plan, profile, topology, options, drawn_mini_batches(plan));
    publish(context.fs(), args.text("draw"), drawing(plan, played)).or_throw();
    const double seconds = played.prediction.mini_batch_s;
    json["played_s"] = seconds;
    text +=
        fmt::format("by its instructions in virtual time {:.3f} ms a mini-batch\n", seconds * 1e3);
  }
  if (args.has("save-graph")) {
    save_graph(context.fs(), args.text("save-graph"), std::move(profile), plan);
  }
  context.print(json, text);
  return kOk;
}

}  // namespace ndtrain::cli
