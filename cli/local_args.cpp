#include "cli/local_args.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/number_args.h"
#include "cli/sparse_args.h"
#include "framework/core/limits.h"

namespace ndtrain::cli {
namespace {

double number_from_0_below_1(const Args& args, const char* flag) {
  const double x = args.number(flag);
  if (x >= 0 && x < 1) return x;
  throw UsageError(std::string("--") + flag + " " + args.text(flag) + ": 0 to below 1");
}

void set_outer(const Args& args, LocalStepsOptions& options) {
  if (args.has("outer-lr")) {
    options.outer_lr = args.number("outer-lr");
    if (!(options.outer_lr > 0 && std::isfinite(options.outer_lr))) {
      throw UsageError("--outer-lr " + args.text("outer-lr") + ": above 0");
    }
  }
  if (args.has("outer-momentum")) {
    options.outer_momentum = number_from_0_below_1(args, "outer-momentum");
  }
}

void set_selection(const Args& args, uint64_t seed, LocalStepsOptions& options) {
  options.wire = value_wire_of(args);
  options.route = gather_route_of(args);
  options.seed = seed;
  if (args.given("all-gather") && !args.has("compressor") && float_type_of(options.wire)) {
    throw UsageError("--all-gather with --sync " + args.text("sync") +
                     ": without --compressor what ranks have learnt is added up as it travels; add "
                     "that, or --wire-dtype int8");
  }
  if (!args.has("compressor")) {
    for (const char* flag : {"drop", "scan"}) {
      if (!args.given(flag)) continue;
      throw UsageError(std::string("--") + flag + " with --sync " + args.text("sync") +
                       ": without --compressor all of what ranks have learnt travels; add that");
    }
    return;
  }
  check_compressor(args);
  options.compressor = args.text("compressor");
  options.compressing.rotate = scan_rotates(args);
  if (const auto drop = drop_of(args)) options.drop = *drop;
  if (args.given("drop") && make_compressor(options.compressor)->takes_all()) {
    throw UsageError("--drop with --compressor " + options.compressor +
                     ": it sends a bit of each element; leave one away");
  }
}

}  // namespace

void declare_local(ArgsSpec& args) {
  args.flag("inner-steps",
            "by --sync local and diloco: each rank takes so many steps by itself before they agree "
            "(default: 50)",
            "H");
  args.flag("outer-lr",
            "by --sync diloco: the learning rate of the outer optimizer, by which what ranks have "
            "learnt since they agreed becomes what they go on from (default: 0.7)",
            "R");
  args.flag("outer-momentum", "by --sync diloco: its Nesterov momentum (default: 0.9)", "M");
  args.flag("fragments",
            "by --sync local and diloco: so many parts of the parameters, which agree in turn, so "
            "that less travels at once (default: 1)",
            "N");
  args.flag("overlap",
            "by --sync local and diloco: ranks go on for so many steps, below H, while what they "
            "agree on travels (default: 0)",
            "STEPS");
  args.flag("mixing",
            "with --overlap: the share of what a rank has learnt meanwhile in what it goes on with "
            "(default: 0.5)",
            "A");
}

LocalStepsOptions local_of(const Args& args, uint64_t seed) {
  LocalStepsOptions options;
  if (args.has("inner-steps")) {
    options.inner_steps = integer_in(args, "inner-steps", 1, limits::kInnerSteps);
  }
  if (args.text("sync") == "local") {
    for (const char* flag : {"outer-lr", "outer-momentum"}) {
      if (!args.given(flag)) continue;
      throw UsageError(std::string("--") + flag +
                       " is of --sync diloco; local takes the mean of the ranks' parameters");
    }
    options = averaging(options.inner_steps);
  }
  set_outer(args, options);
  if (args.has("fragments")) {
    options.fragments = static_cast<int>(integer_in(args, "fragments", 1, options.inner_steps));
  }
  if (args.has("overlap")) {
    options.overlap = integer_in(args, "overlap", 0, options.inner_steps - 1);
  }
  if (args.has("mixing")) {
    if (options.overlap == 0) {
      throw UsageError("--mixing without --overlap: nothing is learnt meanwhile; add that");
    }
    options.mixing = number_from_0_below_1(args, "mixing");
  }
  if (args.has("staleness")) {
    throw UsageError("--staleness with --sync " + args.text("sync") +
                     ": ranks compute with their own parameters; --overlap STEPS hides what "
                     "travels; leave it away");
  }
  if (args.text("compute") == "f16") {
    throw UsageError("--compute f16 with --sync " + args.text("sync") +
                     ": each rank would scale its loss by itself; take bf16");
  }
  set_selection(args, seed, options);
  return options;
}

std::vector<std::pair<std::string, std::string>> local_settings(const LocalStepsOptions& options) {
  std::vector<std::pair<std::string, std::string>> all = {
      {"inner-steps", std::to_string(options.inner_steps)},
      {"fragments", std::to_string(options.fragments)},
      {"overlap", std::to_string(options.overlap)},
      {"wire-dtype", std::string(name_of(options.wire))}};
  const LocalStepsOptions mean = averaging(options.inner_steps);
  if (options.outer_lr != mean.outer_lr || options.outer_momentum != mean.outer_momentum) {
    all.emplace_back("outer-lr", fmt::format("{}", options.outer_lr));
    all.emplace_back("outer-momentum", fmt::format("{}", options.outer_momentum));
  }
  if (!options.compressor.empty()) {
    all.emplace_back("compressor", options.compressor);
    all.emplace_back("scan", options.compressing.rotate ? "rotate" : "first");
    if (!make_compressor(options.compressor)->takes_all()) {
      all.emplace_back("drop", fmt::format("{}", options.drop));
    }
  }
  if (options.overlap > 0) all.emplace_back("mixing", fmt::format("{}", options.mixing));
  return all;
}

}  // namespace ndtrain::cli
