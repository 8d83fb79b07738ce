#include "cli/exchange_choice_args.h"

#include "cli/slow_link_args.h"

namespace ndtrain::cli {
namespace {

// Flags that are given may keep a method out.
bool goes_with(const ExchangeMethod& method, const Args& args) {
  if (method.sync == "sparse") {
    return !args.given("clip-norm") && !args.given("layer-decay") && !args.given("lr-of");
  }
  const bool is_local = std::holds_alternative<LocalStepsOptions>(method.options);
  return !(is_local && args.text("compute") == "f16");
}

}  // namespace

void declare_exchange_choice(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Ranks");
  args.flag(
      "allow-lossy",
      "with --sync auto: sparse gradients, PowerSGD, local steps and DiLoCo, too, if they come "
      "to an accuracy first by what steps and the link take here; the model is then another "
      "one than by one process");
  args.flag("convergence",
            "what batches and drops cost in steps, from ndtrain profile --convergence: with "
            "--controller, and with --allow-lossy, where it is assumed without",
            "FILE");
}

std::optional<ExchangeChoice> exchange_choice_of(Context& context, const Args& args, int ranks) {
  if (!args.on("allow-lossy")) {
    if (args.given("convergence") && !args.on("controller")) {
      throw UsageError(
          "--convergence is of --controller, or of --sync auto --allow-lossy: add one");
    }
    return std::nullopt;
  }
  if (args.text("sync") != "auto") {
    throw UsageError("--allow-lossy with --sync " + args.text("sync") +
                     ": it is of --sync auto, which chooses; leave one away");
  }
  if (ranks == 1) {
    throw UsageError("--allow-lossy: one process sends nothing; give --ranks 2 or more");
  }
  if (args.has("ema")) {
    throw UsageError("--ema " + args.text("ema") +
                     " with --allow-lossy: over slow links ranks do not take every step alike; "
                     "leave one away");
  }
  refuse_what_is_of_others(args, "--allow-lossy");
  if (args.given("wire-dtype")) {
    throw UsageError("--wire-dtype " + args.text("wire-dtype") +
                     " with --allow-lossy: each way has its own; leave one away");
  }
  ExchangeChoice choice;
  for (ExchangeMethod& method : slow_link_methods()) {
    if (!goes_with(method, args)) continue;
    const auto seeded = [&](auto& options) {
      if constexpr (requires { options.seed; }) options.seed = context.seed();
    };
    std::visit(seeded, method.options);
    Settings settings = settings_of(method);
    settings.emplace_back("ranks", std::to_string(ranks));
    choice.candidates.push_back({.method = method,
                                 .config = {.method = method_of(method)},
                                 .settings = std::move(settings)});
  }
  if (args.has("convergence")) {
    const std::string file = args.text("convergence");
    choice.convergence = parse_convergence_profile(
        context.fs().read(file, limits::kConvergenceText).or_throw(), file);
  }
  return choice;
}

}  // namespace ndtrain::cli
