#include "cli/profile_convergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "cli/head_args.h"
#include "cli/number_args.h"
#include "cli/photo_fs.h"
#include "cli/started_ranks.h"
#include "cli/verb.h"
#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "framework/sparse/plan/convergence_search.h"
#include "ndp/jobs/convergence_runs.h"

namespace ndtrain::cli {
namespace {

// Not --cache, which environments have for all verbs.
constexpr const char* kFlags[] = {"points",    "part",           "epochs",
                                  "lr",        "ranks",          "largest-batch",
                                  "most-drop", "reference-drop", "staleness"};
// What is written behind a profile, as lines that say nothing to those who read it.
constexpr std::string_view kSettings = "# settings: ", kLoss = "# reference_loss ";
constexpr double kMostPenalty = 10;  // a run that has learnt nothing, or whose loss is no number
constexpr int kTimesLarger = 4;      // the largest batch, of the reference's; the smallest as well

double below_1(const Args& args, const std::string& flag) {
  const double x = args.number(flag);
  if (x >= 0 && x < 1) return x;
  throw UsageError("--" + flag + " " + args.text(flag) + ": 0 to below 1");
}

struct Plan {
  ConvergenceSearch search;
  ConvergenceRuns runs;
  ConvergenceProfile profile;  // without points
  int64_t points = 0;
  std::string settings;  // all that decides what is measured
};

// So many epochs that the whole training's part is over.
int64_t epochs_of(const Args& args) {
  const double part = parse_positive("part", args.text("part"));
  if (part > 1) throw UsageError("--part " + args.text("part") + ": above 0 and at most 1");
  const int64_t epochs = integer_in(args, "epochs", 1, 1'000'000);
  return std::max<int64_t>(1, std::llround(part * static_cast<double>(epochs)));
}

void set_batches(const Args& args, int ranks, Plan& plan) {
  const int64_t reference = args.integer("batch");
  if (reference < ranks) {
    throw UsageError("--batch " + args.text("batch") + " but " + std::to_string(ranks) +
                     " ranks: each has a row of a step at least");
  }
  plan.profile.reference_batch = reference;
  plan.profile.largest_batch =
      args.has("largest-batch") ? args.integer("largest-batch") : kTimesLarger * reference;
  const int64_t smallest = std::max<int64_t>(ranks, reference / kTimesLarger / ranks * ranks);
  plan.search.smallest_batch = smallest;
  plan.search.largest_batch = plan.profile.largest_batch / ranks * ranks;
  plan.search.multiple = ranks;
  if (plan.search.largest_batch <= smallest || plan.profile.largest_batch < reference) {
    throw UsageError("--largest-batch " + std::to_string(plan.profile.largest_batch) +
                     ": more than the smallest, " + std::to_string(smallest) +
                     ", and not below --batch");
  }
}

FinetuneConfig training_of(Context& context, const Args& args) {
  FinetuneConfig c;
  c.data = args.required("DATA");
  refuse_object_stores({c.data});
  c.model = args.required("model");
  c.freeze = args.text("freeze");
  c.cache = args.text("cache");
  c.fast_decode = args.on("fast-decode");
  c.version = NDT_VERSION;
  TrainerConfig& t = c.how.trainer;
  t.epochs = epochs_of(args);
  t.seed = context.seed();
  t.compute = compute_of(args);
  try {
    t.optimizer.kind = optimizer_named(args.text("opt"));
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
  t.schedule.kind = Schedule::Kind::kConstant;
  t.schedule.lr = parse_positive("lr", args.text("lr"));
  return c;
}

Plan plan_of(Context& context, const Args& args) {
  Plan plan;
  plan.points = integer_in(args, "points", 1, limits::kConvergencePoints);
  const auto ranks = static_cast<int>(integer_in(args, "ranks", 2, limits::kRanks));
  plan.runs.training = training_of(context, args);
  plan.runs.ranks = ranks;
  plan.runs.staleness =
      static_cast<int>(integer_in(args, "staleness", 0, limits::kSparseStaleness));
  plan.profile.model = std::filesystem::path(args.text("model")).filename().string();
  plan.profile.over = ConvergenceProfile::Over::kDrop;
  plan.profile.reference_drop = below_1(args, "reference-drop");
  set_batches(args, ranks, plan);
  plan.search.most_drop = below_1(args, "most-drop");
  plan.search.seed = context.seed();
  try {
    validate(plan.search);
  } catch (const Error& e) {
    throw UsageError("--most-drop " + args.text("most-drop") + ": " + e.what());
  }
  const FinetuneConfig& t = plan.runs.training;
  plan.settings = fmt::format(
      "DATA {} model {} freeze {} opt {} lr {} epochs {} ranks {} staleness {} seed {} most-drop "
      "{} "
      "compute {} fast-decode {}",
      t.data, t.model, t.freeze, args.text("opt"), args.text("lr"), t.how.trainer.epochs, ranks,
      plan.runs.staleness, context.seed(), args.text("most-drop"), args.text("compute"),
      t.fast_decode);
  return plan;
}

std::string line_behind(const std::string& text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string::npos) return "";
  const size_t begin = at + key.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

// What a file has already: points, and the reference's loss. None: it is not there.
std::optional<double> go_on(Context& context, const std::string& file, Plan& plan) {
  if (!context.fs().exists(file)) return std::nullopt;
  const std::string text = context.fs().read(file, limits::kConvergenceText).or_throw();
  ConvergenceProfile before = parse_convergence_profile(text, file);
  const std::vector<ConvergenceProfile::Point> points = std::move(before.points);
  const std::string settings = line_behind(text, kSettings), loss = line_behind(text, kLoss);
  before.points.clear();
  double reference = 0;
  const auto [end, error] = std::from_chars(loss.data(), loss.data() + loss.size(), reference);
  if (settings != plan.settings || before != plan.profile || error != std::errc() ||
      end != loss.data() + loss.size()) {
    throw Error(file, " is of other trainings, with ", settings.empty() ? "no settings" : settings,
                ", batches to ", before.largest_batch, ", a reference of ", before.reference_batch,
                " rows and drop ", before.reference_drop, "; these have ", plan.settings,
                "; give another -o, or remove it");
  }
  plan.profile.points = points;
  return reference;
}

void write(Context& context, const std::string& file, const Plan& plan, double reference) {
  const std::string text = convergence_profile_text(plan.profile) + std::string(kSettings) +
                           plan.settings + "\n" + std::string(kLoss) +
                           fmt::format("{}\n", reference);
  publish(context.fs(), file, text).or_throw();
}

std::string table_of(const Plan& plan) {
  std::string text = fmt::format("{:>10}{:>10}{:>12}\n", "rows", "drop", "penalty");
  std::vector<ConvergenceProfile::Point> points = plan.profile.points;
  std::ranges::stable_sort(points, {}, &ConvergenceProfile::Point::penalty);
  for (const ConvergenceProfile::Point& p : points) {
    text += fmt::format("{:>10}{:>10.4g}{:>12.4f}\n",
                        std::llround(p.batch * static_cast<double>(plan.profile.largest_batch)),
                        p.second, p.penalty);
  }
  return text;
}

int measure(Context& context, const std::string& file, Plan& plan) {
  Progress& progress = context.progress();
  const ConvergenceRuns::Place place{.device = context.device(),
                                     .fs = context.fs(),
                                     .clock = context.clock(),
                                     .progress = progress};
  std::optional<double> reference = go_on(context, file, plan);
  if (reference) {
    progress.say(fmt::format("going on behind {} points of {}", plan.profile.points.size(), file));
  } else {
    progress.say(fmt::format("reference: {} rows, drop {}, {} epochs by {} ranks",
                             plan.profile.reference_batch, plan.profile.reference_drop,
                             plan.runs.training.how.trainer.epochs, plan.runs.ranks));
    reference = plan.runs.loss(plan.profile.reference_batch, plan.profile.reference_drop, place);
  }
  if (reference && !(std::isfinite(*reference) && *reference > 0)) {
    throw Error("the reference's loss is ", *reference,
                ": others are parts of it; try a smaller --lr");
  }
  while (reference && std::ssize(plan.profile.points) < plan.points) {
    const ConvergenceSearch::Point p = plan.search.next(plan.profile.points);
    const std::optional<double> loss = plan.runs.loss(p.batch, p.drop, place);
    if (!loss) break;
    const double penalty = std::min(kMostPenalty, (*loss - *reference) / *reference);
    plan.profile.points.push_back(
        {.batch = static_cast<double>(p.batch) / static_cast<double>(plan.profile.largest_batch),
         .second = p.drop,
         .penalty = penalty});
    write(context, file, plan, *reference);
    progress.say(fmt::format("point {}/{}: {} rows, drop {}: loss {:.4f}, penalty {:.4f}",
                             plan.profile.points.size(), plan.points, p.batch, p.drop, *loss,
                             penalty));
  }
  if (progress.interrupted()) {
    progress.say("stopped; the same command goes on");
    return kInterrupted;
  }
  const Json json = {{"file", file},
                     {"points", plan.profile.points.size()},
                     {"reference_loss", *reference},
                     {"epochs", plan.runs.training.how.trainer.epochs}};
  context.print(json, table(json) + "\n" + table_of(plan));
  return kOk;
}

}  // namespace

void declare_profile_convergence(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Convergence");
  args.flag(
      "convergence",
      "instead: train on DATA with batches and drops of sparse gradients, and write what loss "
      "they cost against a reference of --batch rows; a file that is there is gone on with");
  args.flag("points", "with --convergence: trainings, beside the reference", "N", "30");
  args.flag("part", "with --convergence: of the epochs that a run trains, above 0 to 1", "X",
            "0.25");
  args.flag("e,epochs", "with --convergence: of a whole training", "N", "15");
  args.flag("lr", "with --convergence: learning rate", "X", "0.001");
  args.flag("ranks", "with --convergence: among which gradients are exchanged, in this process",
            "N", "2");
  args.flag("largest-batch", "with --convergence: rows of a step of all ranks (default: 4 x -b)",
            "N");
  args.flag("most-drop", "with --convergence: the largest drop", "D", "0.999");
  args.flag("reference-drop", "with --convergence: of the reference", "D", "0");
  args.flag("staleness", "with --convergence: of all of them, in steps", "S", "0");
  args.flag("cache",
            "with --convergence: where features and the list of the photos are kept (default: "
            "~/.cache/ndtrain)",
            "DIR");
}

void refuse_profile_convergence(const Args& args) {
  for (const char* flag : kFlags) {
    if (args.given(flag)) {
      throw UsageError(std::string("--") + flag + " is of --convergence: add that");
    }
  }
}

int run_profile_convergence(Context& context, const Args& args) {
  const std::string file = args.required("out");
  if (args.given("steps")) {
    throw UsageError("--steps with --convergence: its trainings are of --epochs; leave one away");
  }
  Plan plan = plan_of(context, args);
  const ScratchDirectory scratch("ndtrain-convergence");
  plan.runs.directory = join(scratch.path(), "run");
  context.be_deterministic();
  log::set_level(log::Level::kError);  // what runs would warn of is said of each
  return measure(context, file, plan);
}

}  // namespace ndtrain::cli
