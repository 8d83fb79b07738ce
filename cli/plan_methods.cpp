#include "cli/plan_methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/number_args.h"
#include "cli/verb.h"
#include "framework/core/limits.h"
#include "framework/core/thread_pool.h"
#include "framework/parallel/replay_network.h"
#include "framework/pipeline/planner/model_profile_json.h"
#include "framework/sparse/plan/method_forecast.h"
#include "ndp/jobs/training_costs.h"
#include "ndp/jobs/transfer.h"

namespace ndtrain::cli {
namespace {

constexpr std::array<const char*, 8> kFlags = {"latency", "model", "freeze",      "batch",
                                               "sync",    "steps", "epoch-steps", "convergence"};
// Of plans of stages.
constexpr std::array<const char*, 14> kOfStages = {"network",
                                                   "out",
                                                   "save-graph",
                                                   "draw",
                                                   "cost",
                                                   "preset",
                                                   "schedule",
                                                   "memory",
                                                   "no-recompute",
                                                   "use-fewer",
                                                   "states",
                                                   "micro-batches",
                                                   "minibatch-ratio",
                                                   "compress-branches"};

int ranks_of(const Args& args) {
  if (!args.has("devices")) return 2;
  const std::vector<std::string> texts = args.list("devices");
  const std::vector<int> counts = parse_counts("devices", texts.front(), limits::kRanks);
  if (texts.size() > 1 || counts.size() > 1 || !args.list("UNITS").empty() || counts[0] < 2) {
    throw UsageError("-n " + args.text("devices") +
                     " with --link: the ranks between which it is, one number from 2 up");
  }
  return counts[0];
}

std::vector<ExchangeMethod> methods_of(const Args& args) {
  if (!args.has("sync")) return usual_methods();
  std::vector<ExchangeMethod> methods;
  for (const std::string& word : parts_of(args.text("sync"))) {
    try {
      methods.push_back(parse_exchange_method(word));
    } catch (const Error& e) {
      throw UsageError("--sync " + std::string(e.what()));
    }
  }
  return methods;
}

// What ndtrain train would train behind a cut, with the classes that the file has.
TransferModel trained_part(Context& context, const Args& args) {
  const ModelFile file = load_model(context.fs(), args.text("model"));
  std::vector<std::string> classes = file.classes;
  for (int64_t i = std::ssize(classes); i < file.outputs(); ++i) {
    classes.push_back(std::to_string(i));
  }
  return prepare_transfer(file, classes, "keep", args.text("freeze"), DType::kF16, context.seed());
}

// Published networks, or what a run has measured; none: the file is of another kind.
std::optional<TrainingCosts> costs_of_network(Context& context, const std::string& text) {
  const size_t hash = text.rfind('#');
  const std::string file = text.substr(0, hash);
  const Result<std::string> bytes = context.fs().read(file, limits::kProfileFile);
  const Json json = bytes.ok() ? try_parse_json(*bytes) : Json();
  if (!json.is_object() || (!json.contains("networks") && !json.contains("layers"))) return {};
  std::vector<ReplayNetwork> networks = load_replay_networks(context.fs(), file);
  if (hash != std::string::npos) {
    std::erase_if(networks,
                  [&](const ReplayNetwork& n) { return n.name != text.substr(hash + 1); });
  }
  if (networks.size() == 1) return TrainingCosts{.step = std::move(networks[0].costs)};
  std::string names;
  for (const ReplayNetwork& n : load_replay_networks(context.fs(), file)) {
    names += (names.empty() ? "" : ", ") + n.name;
  }
  throw UsageError("--profile " + text + ": one network, as " + file + "#NAME; there are " + names);
}

TrainingCosts costs_of_profile(Context& context, const Args& args, int ranks) {
  const std::string text = args.text("profile");
  if (std::optional<TrainingCosts> costs = costs_of_network(context, text)) {
    costs->rows = args.integer("batch");
    return *costs;
  }
  ModelProfile profile = load_model_profile(context.fs(), text);
  if (profile.batch > 0 && args.given("batch")) {
    const auto ratio = args.number("batch") / static_cast<double>(profile.batch);
    profile = with_minibatch_ratio(std::move(profile), ratio);
    profile.batch = args.integer("batch");
  }
  return costs_of(profile, ranks);
}

TrainingCosts measured_costs(Context& context, const Args& args, const TransferModel& model,
                             int ranks) {
  TrainerConfig config{.batch = args.integer("batch"), .seed = context.seed()};
  config.optimizer.kind = OptimizerConfig::Kind::kAdam;
  context.progress().say("steps of a rank are timed, for about 3 seconds");
  return measure_training_costs(model.head, model.trainable, config, ranks, context.device(),
                                context.clock(), [&] { return !context.progress().interrupted(); });
}

TrainingCosts costs_of(Context& context, const Args& args, int ranks) {
  if (!args.has("profile") && !args.has("model")) {
    throw UsageError(
        "--link without --model or --profile: -m MODEL is measured here, --profile FILE is what "
        "ndtrain profile or a run with --sync auto has measured");
  }
  std::optional<TransferModel> model;
  if (args.has("model")) model = trained_part(context, args);
  TrainingCosts costs = args.has("profile") ? costs_of_profile(context, args, ranks)
                                            : measured_costs(context, args, *model, ranks);
  costs.threads = shared_threads().threads();
  if (model && args.has("profile")) costs.tensors = shapes_of(model->head, model->trainable);
  costs.epoch_steps = integer_in(args, "epoch-steps", 1, limits::kInnerSteps);
  const double latency = args.number("latency");
  if (!(latency >= 0 && std::isfinite(latency))) {
    throw UsageError("--latency " + args.text("latency") + ": seconds, not below 0");
  }
  set_link(parse_bandwidth("link", args.text("link")), latency, ranks, costs.step);
  return costs;
}

std::optional<LossPenalty> penalty_of(Context& context, const Args& args) {
  if (!args.has("convergence")) return std::nullopt;
  const std::string file = args.text("convergence");
  return LossPenalty(
      parse_convergence_profile(context.fs().read(file, limits::kConvergenceText).or_throw(), file),
      context.seed());
}

Json to_json(const MethodForecast& f, double steps) {
  return {{"method", f.method.text()},
          {"flags", f.method.flags()},
          {"exact", f.method.is_exact()},
          {"step_s", f.step_s},
          {"computing_s", f.computing_s},
          {"work_s", f.work_s},
          {"exposed_s", f.exposed_s},
          {"sent_bytes", f.sent_bytes},
          {"steps_factor", f.steps_factor},
          {"steps_factor_from", f.source},
          {"time_s", f.seconds_to_accuracy() * steps}};
}

Json to_json(const ExchangeWork& w) {
  return {{"add_s", w.add_s},       {"choose_s", w.choose_s}, {"sort_s", w.sort_s},
          {"column_s", w.column_s}, {"outer_s", w.outer_s},   {"encode_s", w.encode_s},
          {"decode_s", w.decode_s}, {"update_s", w.update_s}};
}

std::string table_of(const std::vector<MethodForecast>& forecasts, double steps) {
  std::string text =
      fmt::format("{:<16}{:>10}{:>12}{:>9}{:>11}{:>11}{:>8}{:>12}  {}\n", "method", "step s",
                  "computing s", "work s", "waiting s", "sent MB", "x steps", "s in all", "steps");
  for (const MethodForecast& f : forecasts) {
    text +=
        fmt::format("{:<16}{:>10.4f}{:>12.4f}{:>9.4f}{:>11.4f}{:>11.4g}{:>8.3g}{:>12.4g}  {}\n",
                    f.method.text(), f.step_s, f.computing_s, f.work_s, f.exposed_s,
                    f.sent_bytes / 1e6, f.steps_factor, f.seconds_to_accuracy() * steps, f.source);
  }
  return text;
}

// What the figures go by, for people.
std::string title(const Args& args, const TrainingCosts& costs, double steps, bool measured) {
  std::string text = fmt::format(
      "{} ranks, {} rows a step, {} bit/s each way and {:.3g} ms; epochs of {} steps, at whose end "
      "all is waited for\n",
      costs.step.ranks, costs.rows, args.text("link"), args.number("latency") * 1e3,
      costs.epoch_steps);
  text += args.has("profile")
              ? "computing is that of " + args.text("profile") +
                    "; work that of 2 cores, AMD EPYC (Zen 4)\n"
              : std::string("computing and work are measured here, on rows of noise\n");
  text +=
      fmt::format("in all: until the loss is that of {:.6g} steps of exact gradients{}\n\n", steps,
                  measured ? ", by the convergence profile"
                           : ", by steps that are assumed (docs/sparse.md): give --convergence");
  return text;
}

}  // namespace

void declare_plan_methods(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Exchanges over a link");
  args.flag("link",
            "instead of stages: compare the ways to exchange gradients over links of so many bits "
            "per second, as 100M, between -n ranks (default: 2), by their time to the same "
            "accuracy",
            "RATE");
  args.flag("latency", "with --link: of a message, in seconds", "S", "0.001");
  args.flag("m,model",
            "with --link: what is trained: timed here without a --profile, and the shapes of its "
            "parameters beside one",
            "MODEL");
  args.flag("freeze", "with --link: what is not trained, as for ndtrain train", "WHAT", "none");
  args.flag("b,batch", "with --link: rows of a step of all ranks (default of a profile: its own)",
            "N", "64");
  args.flag("sync",
            "with --link: ways, as sparse:1:0.99 (staleness, drop; :topk takes the largest), "
            "powersgd:4 (columns), local:50 "
            "and diloco:50:4:5 (inner steps, fragments, overlap), and schedules (default: some of "
            "each)",
            "NAMES");
  args.flag("steps", "with --link: steps of exact gradients that the accuracy takes", "N", "1000");
  args.flag("epoch-steps", "with --link: steps of an epoch, at whose end local steps agree", "N",
            "100");
  args.flag("convergence",
            "with --link: what a drop costs in steps, from ndtrain profile --convergence (default: "
            "assumed)",
            "FILE");
}

void refuse_plan_methods(const Args& args) {
  for (const char* flag : kFlags) {
    if (args.given(flag)) {
      throw UsageError(std::string("--") + flag + " is of --link: add that");
    }
  }
}

int run_plan_methods(Context& context, const Args& args) {
  for (const char* flag : kOfStages) {
    if (!args.given(flag)) continue;
    throw UsageError(std::string("--") + flag +
                     " with --link: it is of plans of stages; leave one away");
  }
  const int ranks = ranks_of(args);
  const std::vector<ExchangeMethod> asked = methods_of(args);
  if (args.integer("batch") < ranks) {
    throw UsageError("--batch " + args.text("batch") + " but " + std::to_string(ranks) +
                     " ranks: each has a row of a step at least");
  }
  const double steps = parse_positive("steps", args.text("steps"));
  const std::optional<LossPenalty> penalty = penalty_of(context, args);
  const TrainingCosts costs = costs_of(context, args, ranks);
  if (context.progress().interrupted()) return kInterrupted;
  std::vector<ExchangeMethod> methods = asked;
  if (costs.tensors.empty() && !args.has("sync")) {
    std::erase_if(methods, [](const ExchangeMethod& m) { return m.sync == "powersgd"; });
    context.progress().say("powersgd is left out: give -m MODEL, which has the shapes it needs");
  }
  const std::vector<MethodForecast> all = forecast(methods, costs, penalty ? &*penalty : nullptr);
  Json json = {{"link", args.text("link")},
               {"latency_s", args.number("latency")},
               {"ranks", ranks},
               {"rows", costs.rows},
               {"epoch_steps", costs.epoch_steps},
               {"steps", steps},
               {"work", to_json(costs.work)},
               {"methods", Json::array()}};
  for (const MethodForecast& f : all) json["methods"].push_back(to_json(f, steps));
  context.print(json, title(args, costs, steps, penalty.has_value()) + table_of(all, steps) +
                          "\nfirst: ndtrain train … --ranks " + std::to_string(ranks) + " " +
                          all.front().method.flags() + "\n");
  return kOk;
}

}  // namespace ndtrain::cli
